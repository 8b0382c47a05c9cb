-- ReadMany is read.sql for several keys. It returns each record with the number of its key, counted
-- from 1. It names the keys twice: the list finds the shards.
select k.n, clock_timestamp() as now, /*i.record*/, current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/idempotency i
join unnest(@keys::uuid[]) with ordinality as k (key, n) on k.key = i.key
where i.key = any (@keys)
