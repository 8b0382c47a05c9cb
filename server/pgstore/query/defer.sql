-- Defer gives one caller the time to look into an unknown record: its lease is extended if it is
-- over. It returns a row if the caller won.
update /*schema*/idempotency
set lease_until = statement_timestamp() + @lease::interval
from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
where s.lock_timeout is not null and -- plain
--distributed where
  key = @key and fence = @from
  and state = 4 and lease_until <= statement_timestamp()
returning true
