-- ReaderShow returns the record of a key for people, or no row. It names no column that the observer
-- may not read.
select key, null::uuid as token, fence, state, effect, recovery_attempts, maybe_ran, 0::smallint as fingerprint_version, null::bytea as fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, null::bytea as envelope, route, null::bytea as memo, statement_timestamp() as now
from /*schema*/idempotency
where key = @key
