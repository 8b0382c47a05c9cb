-- ReaderChildren returns a page of the records that were claimed on behalf of one record, in some
-- states, the oldest first. It reads the records of the index of children. "offset 0" keeps the planner
-- from another index, which has the order of the page: it would read all older records for the page.
select statement_timestamp() as now, /*outline*/
from (
  select /*outline*/
  from /*schema*/idempotency
  where parent = @parent
    and (@effect::smallint = 0 or effect = @effect::smallint)
    and state = any (@states::smallint[])
    and (@route::text = '' or route = @route::text)
    and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
  offset 0
) children
order by created_at, key
limit @limit
