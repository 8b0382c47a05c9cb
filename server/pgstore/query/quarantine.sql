-- Quarantine takes a record in progress past its lease out of use, as unknown or quarantined. It
-- returns the record if it did, and no row if it has moved on. The fence stays: the record has no
-- new owner, and the dead owner finds the changed state.
--distributed with moved as (
update /*schema*/idempotency
set state = @to, recovery_attempts = recovery_attempts + 1, maybe_ran = maybe_ran or effect <> 1,
  route = coalesce(nullif(@route::text, ''), route)
from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
where s.lock_timeout is not null and -- plain
--distributed where
  key = @key and fence = @from
  and state = 1 and lease_until <= statement_timestamp()
returning -- plain
--distributed returning *) select
  statement_timestamp() as now, /*record*/
--distributed from moved
