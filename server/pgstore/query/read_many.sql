-- ReadMany is read.sql for several keys. It returns each record with the number of its
-- key, counted from 1. The limit keeps the planner from joining the table as a
-- whole, as it would where there are many keys for the size that it takes it to have:
-- each key is looked up.
select k.n, i.*, clock_timestamp() as now, current_setting('synchronous_standby_names') <> '' as synchronous
from unnest(@keys::uuid[]) with ordinality as k (key, n)
cross join lateral (
  select key, token, fence, state, effect, deaths, maybe_ran, fingerprint_version, fingerprint,
    created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, envelope, route, memo
  from /*schema*/idempotency
  where key = k.key
  limit 1
) i
