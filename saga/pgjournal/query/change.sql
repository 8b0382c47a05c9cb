-- Change applies a verb to a saga, if the saga is at the given revision. It writes down the
-- actor. It returns the saga if it did, and no row if the saga is at another revision or is gone.
-- It fences off an owner only if the saga ever had one. Fence 0 stays, so that the first owner
-- still knows that nothing was sent. Citus takes no time in a case expression, so "old" has the
-- times.
with old as (
  select i.id, i.status, statement_timestamp() as now,
    statement_timestamp() + @deadline::interval as deadline_at, statement_timestamp() + @keep::interval as expires_at
  from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
  cross join -- plain
--distributed from
    /*schema*/saga i
  where s.lock_timeout is not null and -- plain
--distributed where
    i.id = @id and i.revision = @revision
  for update of i
), changed as (
  update /*schema*/saga i
  set engine = '00000000-0000-0000-0000-000000000000', fence = i.fence + (i.fence > 0)::int, revision = i.revision + 1, wakes = 0,
    entries = i.entries || @entries, status = @status, cancel = i.cancel or @cancel,
    recovery_attempts = 0, slept_at = null, wake_at = case when @status::smallint in (1, 2) then old.now end, stuck_on = null, resumed_at = old.now,
    deadline_at = case when @deadline::interval > interval '0' then old.deadline_at else i.deadline_at end,
    failed_at = case when @status::smallint = 2 then coalesce(i.failed_at, old.now) else i.failed_at end,
    finished_at = case when @status::smallint > 2 then old.now end,
    expires_at = case when @status::smallint in (3, 4, 6) then old.expires_at end
  from old
  where i.id = old.id
--distributed and i.id = @id
  returning i.*, old.status as was
), spilled as (
  insert into /*schema*/saga_result (saga, revision, position, result)
  select c.id, c.revision, r.n, r.result
  from changed c
  cross join unnest(@large::bytea[]) with ordinality as r (result, n)
), logged as (
  insert into /*schema*/saga_audit (saga, verb, step, actor, reason, from_status, to_status, fence)
  select id, @verb, @step, @actor, @reason, was, status, fence from changed
)
select statement_timestamp() as now, /*record*/
from changed
