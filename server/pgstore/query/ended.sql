-- Ended returns the numbers, counted from 1, of the runs that have ended: their records are gone,
-- or not in progress at that fence. It locks nothing. The offset keeps the planner from a join, for
-- which it might read the whole table. With the offset each run is one look into the key's index.
select w.n
from unnest(@keys::uuid[], @fences::bigint[]) with ordinality as w (key, fence, n)
where not exists (
  select from /*schema*/idempotency i
  where i.key = w.key and i.fence = w.fence and i.state = 1
  offset 0)
