-- ReaderUnfinished returns a page of unfinished sagas, the youngest first. It reads the index of each
-- status from the end of the page before, until it has found enough. Without its desc it returns the
-- oldest first, from @from on and without what the page before had of this time. A saga with an unknown status
-- needs a person, so it is listed with the stuck sagas.
-- @stuck_on is a part of stuck_on; null means any. Only plain values can be searched so.
select s.*
from (
  select s.*
  from unnest(@statuses::smallint[]) as u (of_status)
  cross join lateral (
    select statement_timestamp() as now, /*outline*/, cause, stuck_on
    from /*schema*/saga
    where status = u.of_status and expires_at is null
      and created_at >= @from::timestamptz and created_at <= @before_created_at::timestamptz
      and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
      and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
      and (@name::text = '' or name = @name)
      and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
    order by created_at desc, id desc
    limit @limit
  ) s
  union all
  select statement_timestamp() as now, /*outline*/, cause, stuck_on
  from /*schema*/saga
  where @damaged::boolean and (status < 1 or status > 6) and expires_at is null
    and created_at >= @from::timestamptz and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
    and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
    and (@name::text = '' or name = @name)
    and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
) s
order by s.created_at desc, s.id desc
limit @limit
