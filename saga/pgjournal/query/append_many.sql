-- AppendMany is append.sql for several owners, after flush.sql. It returns the number of each
-- write that it carried out, counted from 1. If two writes name one saga, it carries out one of
-- them. The writes come in the order of their IDs. The arrays are unnested in a select list: in
-- the from clause each array would have its own store of rows. The numbers are an array as well.
-- With generate_subscripts the planner would expect a thousand rows and look through all sagas.
update /*schema*/saga i
set revision = o.revision,
  entries = i.entries || o.entries,
  recovery_attempts = case octet_length(o.entries) when 0 then i.recovery_attempts else 0 end,
  status = coalesce(o.status, i.status),
  turned_at = case o.status when 2 then coalesce(i.turned_at, statement_timestamp()) else i.turned_at end,
  finished_at = case when o.status > 2 then statement_timestamp() end,
  expires_at = case when o.status in (3, 4, 6) then statement_timestamp() + o.keep end,
  deadline_at = coalesce(o.deadline_at, i.deadline_at),
  engine = case when o.wake_at is null then i.engine else '00000000-0000-0000-0000-000000000000' end,
  clean = o.wake_at is not null, wake_at = case when o.status > 2 then null else least(o.wake_at, i.wake_at) end,
  cause = coalesce(o.cause, i.cause), stuck_on = coalesce(o.stuck_on, i.stuck_on), result = coalesce(o.result, i.result)
from (select unnest(@ids::uuid[]) as id, unnest(@engines::uuid[]) as engine, unnest(@fences::bigint[]) as fence,
    unnest(@revisions::bigint[]) as revision, unnest(@entries::bytea[]) as entries, unnest(@statuses::smallint[]) as status,
    unnest(@deadline_ats::timestamptz[]) as deadline_at, unnest(@wake_ats::timestamptz[]) as wake_at, unnest(@causes::bytea[]) as cause,
    unnest(@stuck_ons::bytea[]) as stuck_on, unnest(@results::bytea[]) as result, unnest(@keeps::interval[]) as keep,
    unnest(@numbers::integer[]) as n) o
where i.id = o.id and i.fence = o.fence and i.engine = o.engine and i.revision = o.revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(o.entries) <= i.entry_room
returning o.n
