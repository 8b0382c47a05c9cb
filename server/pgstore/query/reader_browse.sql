-- ReaderBrowse returns a page of the records of a window of time, the youngest first. It reads an
-- index on (created_at, key) from the end of the window, or of the page before, until it has found
-- enough. A null from means that the window begins one length of a window before now. An infinite
-- end means that it ends now. A record whose time of creation is not finite is in no window.
select statement_timestamp() as now, /*outline*/
from /*schema*/idempotency
where created_at >= coalesce(@from::timestamptz, statement_timestamp() - @window::interval)
  and (created_at, key) < (@before_created_at::timestamptz, @before_key::uuid)
  and (cardinality(@states::smallint[]) = 0 or state = any (@states::smallint[]))
  and (@effect::smallint = 0 or effect = @effect::smallint)
  and (@route::text = '' or route = @route::text)
order by created_at desc, key desc
limit @limit
