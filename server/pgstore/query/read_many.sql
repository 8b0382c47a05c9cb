-- ReadMany is read.sql for several keys. It returns each record with the number of its key, counted
-- from 1. The limit makes the planner look up each key. Without the limit it would join the table
-- as a whole if there are many keys for the size that it expects of the table.
select k.n, clock_timestamp() as now, i.*, current_setting('synchronous_standby_names') <> '' as synchronous
from unnest(@keys::uuid[]) with ordinality as k (key, n)
cross join lateral (
  select /*record*/
  from /*schema*/idempotency
  where key = k.key
  limit 1
) i
