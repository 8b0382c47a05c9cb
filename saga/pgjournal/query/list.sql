-- List returns a page of the sagas of one engine without the large columns. It reads their index.
select clock_timestamp() as now, /*listed*/
from /*schema*/saga s
where status in (1, 2) and engine = @engine and engine <> '00000000-0000-0000-0000-000000000000'
  and (created_at, id) > (@after_created_at::timestamptz, @after_id::uuid)
order by created_at, id
limit @limit
