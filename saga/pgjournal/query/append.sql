-- Append writes the outcome of an owner's work. It returns the write's number if it did. It
-- returns no row if the caller does not own the saga, if the write is there already, or if the
-- entries have to be compacted first. Then read.sql tells the reason. A write appends its entries
-- to the present ones, and a reader takes the last entry of each call. So a write needs no read.
-- A saga that has an engine has a wake_at if wake.sql came meanwhile. This wake_at stays until
-- the owner gives the saga up. The saga is then due at that time, even if the owner names a later
-- time. The owner counts the revisions without the wakes. append_many.sql is the form for several writes, and finish.sql the one for a saga that
-- completes. If two writes of a flush name one saga, the statement carries out one of them.
-- Citus refuses a time in a case expression of columns. So @fails, @ends and @sleeps are 0 if the
-- saga fails, ends or is given up with the write, and null otherwise.
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
  select @id::uuid as id, @engine::uuid as engine, @fence::bigint as fence, @revision::bigint as revision,
    @entries::bytea as entries, @status::smallint as status, @deadline_at::timestamptz as deadline_at,
    @wake_at::timestamptz as wake_at, @cause::bytea as cause, @stuck_on::bytea as stuck_on,
    @result::bytea as result, @fails::interval as fails, @sleeps::interval as sleeps,
    @ends::interval as ends, @keep::interval as keep, @n::integer as n
  where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null -- plain
) o
where i.id = o.id and i.fence = o.fence and i.engine = o.engine and i.revision - i.wakes = o.revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(o.entries) <= i.entry_room
returning o.n
