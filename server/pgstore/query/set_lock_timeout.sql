-- SetLockTimeout bounds the waits of this transaction, and returns the bound
-- that it had before, so that the statements of others get theirs back. It
-- returns one row.
select o.lock_timeout, set_config('lock_timeout', @lock_timeout, true)
from (select current_setting('lock_timeout') as lock_timeout offset 0) o
