-- Confirm returns the saga, or no row, and locks it. The lock writes WAL, so its commit waits for
-- the standbys as the saga's own commit should have. A write that became visible because its wait
-- was canceled is not confirmed. The lock ends with the statement.
select clock_timestamp() as now, /*record*/,
  true as synchronous
from (select set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) as settings) s -- plain
cross join -- plain
--distributed from
  /*schema*/saga i
where s.settings is not null and -- plain
--distributed where
  id = @id
for no key update of i
