-- ReadMany is read.sql for several keys. It returns each record with the number of its key, counted
-- from 1. The limit makes the planner look up each key. Without the limit it would join the table
-- as a whole if there are many keys for the size that it expects of the table.
select k.n, i.*, clock_timestamp() as now, current_setting('synchronous_standby_names') <> '' as synchronous
from unnest(@keys::uuid[]) with ordinality as k (key, n)
cross join lateral (
  select key, token, fence, state, effect, recovery_attempts, maybe_ran, fingerprint_version, fingerprint, parent,
    created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, envelope, route, memo
  from /*schema*/idempotency
  where key = k.key
  limit 1
) i
