-- ReaderUnfinished returns a page of unfinished sagas of a distributed table, the youngest first, or the oldest
-- first without its desc.
-- Each node sorts its own unfinished sagas. A saga with an unknown status is listed with the stuck sagas.
select statement_timestamp() as now, /*outline*/, cause, stuck_on
from /*schema*/saga
where (status = any (@statuses::smallint[]) or (@damaged::boolean and status not between 1 and 6)) and expires_at is null
  and created_at >= @from::timestamptz and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
  and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
  and (@name::text = '' or name = @name)
  and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
order by created_at desc, id desc
limit @limit
