-- Read returns the record as it is committed, or no row. It locks nothing.
-- The last column tells whether commits wait for a standby: then a record that
-- is visible here may still be unknown there (confirm.sql).
select key, token, fence, state, effect, recovery_attempts, maybe_ran, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, envelope, route, memo, clock_timestamp() as now,
  current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/idempotency
where key = @key
