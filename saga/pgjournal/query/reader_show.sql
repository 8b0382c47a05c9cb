-- ReaderShow returns a saga without its input and its result, or no row. It locks nothing.
select id, engine, plan, input_hash, name, version, scope, key, ''::bytea as input, fence, revision, status, recovery_attempts, cancel, clean,
  created_at, first_claimed_at, deadline_at, failed_at, resumed_at, wake_at, finished_at, expires_at, entries, cause, stuck_on, null::bytea as result, clock_timestamp() as now
from /*schema*/saga
where id = @id
