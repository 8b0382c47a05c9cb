-- ReaderUnfinished returns a page of unfinished sagas of a distributed table, the youngest first, or the oldest
-- first without its desc. Each node reads the index of each status until it has found enough, and the coordinator takes the
-- first of all. There are at most three statuses. A saga with an unknown status is listed with the stuck sagas.
select s.*
from (
  (select statement_timestamp() as now, /*outline*/, cause, stuck_on
   from /*schema*/saga
   where status = (@statuses::smallint[])[1] and expires_at is null
     and created_at >= @from::timestamptz and created_at <= @before_created_at::timestamptz
     and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
     and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
     and (@name::text = '' or name = @name)
     and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
   order by created_at desc, id desc
   limit @limit)
  union all
  (select statement_timestamp() as now, /*outline*/, cause, stuck_on
   from /*schema*/saga
   where status = (@statuses::smallint[])[2] and expires_at is null
     and created_at >= @from::timestamptz and created_at <= @before_created_at::timestamptz
     and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
     and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
     and (@name::text = '' or name = @name)
     and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
   order by created_at desc, id desc
   limit @limit)
  union all
  (select statement_timestamp() as now, /*outline*/, cause, stuck_on
   from /*schema*/saga
   where status = (@statuses::smallint[])[3] and expires_at is null
     and created_at >= @from::timestamptz and created_at <= @before_created_at::timestamptz
     and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
     and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
     and (@name::text = '' or name = @name)
     and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
   order by created_at desc, id desc
   limit @limit)
  union all
  (select statement_timestamp() as now, /*outline*/, cause, stuck_on
   from /*schema*/saga
   where @damaged::boolean and status < 1 and expires_at is null
     and created_at >= @from::timestamptz and created_at <= @before_created_at::timestamptz
     and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
     and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
     and (@name::text = '' or name = @name)
     and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
   order by created_at desc, id desc
   limit @limit)
  union all
  (select statement_timestamp() as now, /*outline*/, cause, stuck_on
   from /*schema*/saga
   where @damaged::boolean and status > 6 and expires_at is null
     and created_at >= @from::timestamptz and created_at <= @before_created_at::timestamptz
     and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
     and not (created_at = @after_created_at::timestamptz and id <= @after_id::uuid)
     and (@name::text = '' or name = @name)
     and (@stuck_on::bytea is null or position(@stuck_on::bytea in stuck_on) > 0)
   order by created_at desc, id desc
   limit @limit)
) s
order by s.created_at desc, s.id desc
limit @limit
