-- Finish is append.sql for a write that only completes a saga. Most sagas complete, and this form
-- needs few of the values.
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
    @entries::bytea as entries, 3::smallint as status, null::timestamptz as deadline_at,
    null::timestamptz as wake_at, null::bytea as cause, null::bytea as stuck_on,
    @result::bytea as result, null::interval as fails, null::interval as sleeps,
    interval '0' as ends, @keep::interval as keep, @n::integer as n
  where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null -- plain
) o
where i.id = o.id and i.fence = o.fence and i.engine = o.engine and i.revision - i.wakes = o.revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(o.entries) <= i.entry_room
returning o.n
