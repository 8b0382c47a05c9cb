-- ReadManyPartitioned is read_many.sql for records whose answer may be in a time partition.
select k.n, i.*, clock_timestamp() as now, current_setting('synchronous_standby_names') <> '' as synchronous
from unnest(@keys::uuid[]) with ordinality as k (key, n)
cross join lateral (
  select r.key, token, fence, state, effect, recovery_attempts, maybe_ran, fingerprint_version, fingerprint, parent,
    created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status,
    coalesce(r.envelope, a.envelope) as envelope, route, memo
  from /*schema*/idempotency r
  left join /*schema*/idempotency_answer a on a.kept_until = r.answer_kept_until and a.key = r.key
  where r.key = k.key
  limit 1
) i
