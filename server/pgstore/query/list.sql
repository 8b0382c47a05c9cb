-- List returns a page of the records in some states, without their answers. It returns a record in
-- progress only if its owner is dead or, on request, if it is old. It reads the whole table: no
-- index may name a state. It leaves out a record whose time of creation is not finite: a page could
-- not begin after it.
select clock_timestamp() as now, /*listed*/
from /*schema*/idempotency
where (@effect::smallint = 0 or effect = @effect::smallint)
  and state = any (@states::smallint[])
  and (@route::text = '' or route = @route::text)
  and (state <> 1 or lease_until <= clock_timestamp()
    or (@running::interval > interval '0' and created_at <= clock_timestamp() - @running::interval))
  and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
order by created_at, key
limit @limit
