-- Lock returns the record, or no row, and keeps it from changing until the
-- transaction ends.
select key, token, fence, state, effect, recovery_attempts, maybe_ran, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, envelope, route, memo, clock_timestamp() as now,
  false as synchronous
from /*schema*/idempotency
where key = @key
for update
