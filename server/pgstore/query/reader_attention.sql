-- ReaderAttention returns a page of the keys that need a person, the oldest first. It reads the notes
-- of such keys, and the record of each note. The limit makes the planner look up each record by its
-- key.
select statement_timestamp() as now, /*i.outline*/
from /*schema*/idempotency_attention a
cross join lateral (
  select /*outline*/
  from /*schema*/idempotency
  where key = a.key and fence = a.fence and state = a.state
    and (@effect::smallint = 0 or effect = @effect::smallint)
    and (@route::text = '' or route = @route::text)
  limit 1
) i
where a.state = any (@states::smallint[])
  and isfinite(a.created_at) and (a.created_at, a.key) > (@after_created_at::timestamptz, @after_key::uuid)
order by a.created_at, a.key
limit @limit
