-- ReadManyPartitioned is read_many.sql for records whose answer may be in a time partition.
select k.n, clock_timestamp() as now, i.*, current_setting('synchronous_standby_names') <> '' as synchronous
from unnest(@keys::uuid[]) with ordinality as k (key, n)
cross join lateral (
  select /*r.listed*/, coalesce(r.envelope, a.envelope) as envelope
  from /*schema*/idempotency r
  left join /*schema*/idempotency_answer a on a.kept_until = r.answer_kept_until and a.key = r.key
  where r.key = k.key
  limit 1
) i
