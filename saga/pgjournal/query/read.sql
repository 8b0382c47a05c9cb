-- Read returns the saga as it is committed, or no row. It locks nothing.
-- The last column tells whether commits wait for a standby: then a saga that is
-- visible here may still be unknown there (confirm.sql).
select id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status, recovery_attempts, cancel, clean,
  created_at, first_claimed_at, deadline_at, failed_at, resumed_at, wake_at, finished_at, expires_at, entries, cause, stuck_on, result, clock_timestamp() as now,
  current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/saga
where id = @id
