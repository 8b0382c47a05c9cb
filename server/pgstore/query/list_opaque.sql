-- ListOpaque is list.sql for records of opaque claims, which have an index.
select clock_timestamp() as now, /*listed*/
from /*schema*/idempotency
where effect = 3
  and state = any (@states::smallint[])
  and (@route::text = '' or route = @route::text)
  and (state <> 1 or lease_until <= clock_timestamp()
    or (@running::interval > interval '0' and created_at <= clock_timestamp() - @running::interval))
  and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
order by created_at, key
limit @limit
