-- UnboundLocks gives the rest of a pipeline the lock_timeout that it had before bound_locks.sql.
select set_config('lock_timeout', o.lock_timeout, true)
from (select current_setting('fanonce.lock_timeout') as lock_timeout) o
