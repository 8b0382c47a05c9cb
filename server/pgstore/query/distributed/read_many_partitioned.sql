-- ReadManyPartitioned is read_many.sql for records whose answer may be in a time partition.
select k.n, i.key, token, fence, state, effect, recovery_attempts, maybe_ran, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status,
  coalesce(i.envelope, a.envelope) as envelope, route, memo,
  clock_timestamp() as now, current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/idempotency i
join unnest(@keys::uuid[]) with ordinality as k (key, n) on k.key = i.key
left join /*schema*/idempotency_answer a on a.kept_until = i.answer_kept_until and a.key = i.key
where i.key = any (@keys)
