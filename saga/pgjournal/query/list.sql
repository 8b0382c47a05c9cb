-- List returns a page of sagas without the large columns. If only unfinished sagas are asked for,
-- it reads their index; else it reads the whole table. A saga with an unknown status needs a
-- person, so it is listed with the stuck sagas.
select clock_timestamp() as now, /*listed*/
from /*schema*/saga s
where (status = any (@statuses::smallint[]) or (@damaged::boolean and status not between 1 and 6))
  and (@any::boolean or expires_at is null)
  and (@name::text = '' or name = @name)
  and (@engine::uuid is null or (status in (1, 2) and engine = @engine and engine <> '00000000-0000-0000-0000-000000000000'))
  and (not @unowned::boolean or (status in (1, 2) and expires_at is null and not exists (
    select from /*schema*/saga_engine e
    where e.id = s.engine and not e.has_left and e.lease_until > clock_timestamp())))
  and (not @deferred::boolean or (status in (1, 2) and engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
  and (created_at, id) > (@after_created_at::timestamptz, @after_id::uuid)
order by created_at, id
limit @limit
