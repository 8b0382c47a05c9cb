-- LockTimeout bounds the waits for locks in this transaction. It returns one row. It
-- is a statement of its own: an update of a distributed table calls no function
-- that is volatile, as set_config is. The server is to say if no standby confirmed the
-- commit, whatever somebody who had the connection before chose to hear.
select set_config('lock_timeout', @lock_timeout, true), set_config('client_min_messages', 'warning', true)
