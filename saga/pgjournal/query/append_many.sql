-- AppendMany is append.sql for several owners, after flush.sql. It returns the number
-- of each that it did something for, counted from 1: of two that name one saga, one.
-- They come in the order of their IDs.
update /*schema*/saga i
set revision = o.revision,
  entries = i.entries || o.entries,
  deaths = case octet_length(o.entries) when 0 then i.deaths else 0 end,
  status = coalesce(o.status, i.status), driven = coalesce(o.status, i.status) in (1, 2),
  turned_at = case o.status when 2 then coalesce(i.turned_at, statement_timestamp()) else i.turned_at end,
  finished_at = case when o.status > 2 then statement_timestamp() end,
  expires_at = case when o.status in (3, 4, 6) then statement_timestamp() + o.keep end,
  deadline_at = coalesce(o.deadline_at, i.deadline_at),
  wake_at = o.wake_at,
  cause = coalesce(o.cause, i.cause), stuck_on = coalesce(o.stuck_on, i.stuck_on), result = coalesce(o.result, i.result)
from unnest(@ids::uuid[], @engines::uuid[], @fences::bigint[], @revisions::bigint[], @entries::bytea[], @statuses::smallint[],
    @deadline_ats::timestamptz[], @wake_ats::timestamptz[], @causes::bytea[], @stuck_ons::bytea[], @results::bytea[], @keeps::interval[])
  with ordinality
  as o (id, engine, fence, revision, entries, status, deadline_at, wake_at, cause, stuck_on, result, keep, n)
where i.id = o.id and i.fence = o.fence and i.engine = o.engine and i.revision = o.revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(o.entries) <= i.entry_room
returning o.n
