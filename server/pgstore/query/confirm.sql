-- Confirm returns the record, or no row, and locks it. The lock is WAL, so its commit waits for the
-- standbys, as the record's own commit should have done. So a record is not confirmed if it became
-- visible only because somebody canceled that wait. The lock ends with the statement.
select clock_timestamp() as now, /*record*/,
  true as synchronous
from (select set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) as settings) s -- plain
cross join -- plain
--distributed from
  /*schema*/idempotency i
where s.settings is not null and -- plain
--distributed where
  key = @key
for no key update of i
