-- LockTimeout bounds the waits for locks in this transaction. It returns one row. It is a statement
-- of its own: an update of a distributed table may call no volatile function, and set_config is
-- volatile. The server must say if no standby confirmed the commit, whatever an earlier user of the
-- connection chose to hear.
select set_config('lock_timeout', @lock_timeout, true), set_config('client_min_messages', 'warning', true)
