-- FinishMany is finish.sql for several sagas, after flush.sql, as append_many.sql is of append.sql.
update /*schema*/saga i
set revision = o.revision + i.wakes,
  entries = i.entries || o.entries,
  recovery_attempts = case when octet_length(o.entries) = 0 then i.recovery_attempts else 0 end,
  status = coalesce(o.status, i.status),
  failed_at = least(i.failed_at, statement_timestamp() + o.fails),
  finished_at = statement_timestamp() + o.ends,
  expires_at = statement_timestamp() + o.keep,
  slept_at = statement_timestamp() + o.sleeps,
  deadline_at = coalesce(o.deadline_at, i.deadline_at),
  engine = case when o.wake_at is null then i.engine else '00000000-0000-0000-0000-000000000000' end,
  clean = o.wake_at is not null, wake_at = case when o.status > 2 then null else least(o.wake_at, i.wake_at) end,
  cause = coalesce(o.cause, i.cause), stuck_on = coalesce(o.stuck_on, i.stuck_on), result = coalesce(o.result, i.result)
from (
  select unnest(@id::uuid[]) as id, unnest(@engine::uuid[]) as engine, unnest(@fence::bigint[]) as fence, unnest(@revision::bigint[]) as revision,
    unnest(@entries::bytea[]) as entries, 3::smallint as status, null::timestamptz as deadline_at,
    null::timestamptz as wake_at, null::bytea as cause, null::bytea as stuck_on,
    unnest(@result::bytea[]) as result, null::interval as fails, null::interval as sleeps,
    interval '0' as ends, unnest(@keep::interval[]) as keep, unnest(@n::integer[]) as n
) o
where
--distributed i.id = any (@id) and
  i.id = o.id and i.fence = o.fence and i.engine = o.engine and i.revision - i.wakes = o.revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(o.entries) <= i.entry_room
returning o.n
