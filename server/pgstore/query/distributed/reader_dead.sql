-- ReaderDead returns a page of the runs of Opaque claims whose owners are dead, the oldest first. Opaque
-- records have an index.
select statement_timestamp() as now, /*outline*/
from /*schema*/idempotency
where effect = 3
  and state = 1
  and lease_until <= statement_timestamp()
  and (@route::text = '' or route = @route::text)
  and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
order by created_at, key
limit @limit
