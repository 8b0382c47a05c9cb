-- ReadManyPartitioned is read_many.sql for records whose answer may be in a time partition.
select k.n, clock_timestamp() as now, /*i.listed*/, coalesce(i.envelope, a.envelope) as envelope,
  current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/idempotency i
join unnest(@keys::uuid[]) with ordinality as k (key, n) on k.key = i.key
left join /*schema*/idempotency_answer a on a.kept_until = i.answer_kept_until and a.key = i.key
where i.key = any (@keys)
