-- ListChildren returns a page of the records that were claimed on behalf of one record, in some
-- states, without their answers. It lists owners that live too. It reads the whole table, unless
-- AddReaderIndexes made the index of children.
select clock_timestamp() as now, /*listed*/
from /*schema*/idempotency
where parent = @parent
  and (@effect::smallint = 0 or effect = @effect::smallint)
  and state = any (@states::smallint[])
  and (@route::text = '' or route = @route::text)
  and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
order by created_at, key
limit @limit
