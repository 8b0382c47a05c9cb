-- ReaderUnfinished returns a page of unfinished sagas, the youngest first. It reads the index of each
-- status from the end of the page before, until it has found enough. Without its desc it returns the
-- oldest first, from @from on and without what the page before had of this time. A saga with an unknown status
-- needs a person, so it is listed with the stuck sagas: those below and above the known ones are two ranges of the index.
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
  select s.*
  from (values ((-32768)::smallint, 0::smallint), (7::smallint, 32767::smallint)) as d (least, most)
  cross join lateral (
    select statement_timestamp() as now, /*outline*/, cause, stuck_on
    from /*schema*/saga
    where @damaged::boolean and status between d.least and d.most and expires_at is null
      and created_at >= @from::timestamptz and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
      and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
      and (@name::text = '' or name = @name)
      and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
    order by created_at desc, id desc
    limit @limit
  ) s
) s
order by s.created_at desc, s.id desc
limit @limit
