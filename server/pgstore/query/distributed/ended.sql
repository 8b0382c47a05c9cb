-- Ended returns the numbers, counted from 1, of the runs that have ended: their records are gone,
-- or not in progress at that fence. The nodes are asked for the runs that go on, and the
-- coordinator finds the others.
with running as materialized (
  select key, fence from /*schema*/idempotency where key = any (@keys::uuid[]) and state = 1
)
select w.n
from unnest(@keys::uuid[], @fences::bigint[]) with ordinality as w (key, fence, n)
where not exists (select from running r where r.key = w.key and r.fence = w.fence)
