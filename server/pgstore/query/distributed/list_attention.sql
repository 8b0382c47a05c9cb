-- ListAttention is list.sql for keys that need a person. It reads the notes of such keys, and the
-- record of each note, which is on the same node.
select clock_timestamp() as now, /*i.listed*/
from /*schema*/idempotency_attention a
join /*schema*/idempotency i on i.key = a.key and i.fence = a.fence and i.state = a.state
where a.state = any (@states::smallint[])
  and (@effect::smallint = 0 or i.effect = @effect::smallint)
  and (@route::text = '' or i.route = @route::text)
  and isfinite(a.created_at) and (a.created_at, a.key) > (@after_created_at::timestamptz, @after_key::uuid)
order by a.created_at, a.key
limit @limit
