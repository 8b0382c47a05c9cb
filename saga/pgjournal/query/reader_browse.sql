-- ReaderBrowse returns a page of the sagas of a window of time, the youngest first. It reads the index
-- on (created_at, id) from the end of the page before, until it has found enough. A null @from means
-- that the window begins @window before now. A saga with an unknown status is listed with the stuck
-- sagas.
select statement_timestamp() as now, /*outline*/, cause, stuck_on
from /*schema*/saga
where created_at >= coalesce(@from::timestamptz, statement_timestamp() - @window::interval)
  and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
  and (status = any (@statuses::smallint[]) or (@damaged::boolean and status not between 1 and 6))
  and (@name::text = '' or name = @name)
order by created_at desc, id desc
limit @limit
