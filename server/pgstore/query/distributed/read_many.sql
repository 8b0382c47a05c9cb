-- ReadMany is read.sql for several keys. It returns each record with the number of its key, counted
-- from 1. It names the keys twice: the list finds the shards.
select k.n, i.key, token, fence, state, effect, recovery_attempts, maybe_ran, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, envelope, route, memo,
  clock_timestamp() as now, current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/idempotency i
join unnest(@keys::uuid[]) with ordinality as k (key, n) on k.key = i.key
where i.key = any (@keys)
