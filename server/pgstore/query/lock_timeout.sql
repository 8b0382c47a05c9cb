-- LockTimeout bounds the waits for locks in this transaction. It returns one row. It
-- is a statement of its own: an update of a distributed table calls no function
-- that is volatile, as set_config is.
select set_config('lock_timeout', @lock_timeout, true)
