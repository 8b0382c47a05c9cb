-- BoundLocks bounds the waits of the statements after it in a pipeline, up to unbound_locks.sql.
select set_config('fanonce.lock_timeout', o.lock_timeout, true), set_config('lock_timeout', @lock_timeout, true)
from (select current_setting('lock_timeout') as lock_timeout offset 0) o
