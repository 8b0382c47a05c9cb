-- ChangePlan moves a saga to another plan of its definition, if the saga is at the given revision. It
-- writes down the actor. It returns the saga if it did, and no row if the saga is at another revision
-- or is gone. It fences off an owner as change.sql does. A saga that has work to do is due at once, since
-- the other plan may have more; one that no engine had yet still begins at its own time. The
-- status stays, and what is beside it.
with changed as (
  update /*schema*/saga i
  set plan = @plan, version = @version,
    engine = '00000000-0000-0000-0000-000000000000', fence = i.fence + (i.fence > 0)::int, revision = i.revision + 1, wakes = 0,
    recovery_attempts = 0, slept_at = null, resumed_at = n.now,
    wake_at = case when i.status in (1, 2) and i.fence > 0 then n.now else i.wake_at end,
    stuck_on = case when i.status in (1, 2) then null else i.stuck_on end
  from (select statement_timestamp() as now) n
  cross join (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
  where s.lock_timeout is not null and -- plain
--distributed where
    i.id = @id and i.revision = @revision
  returning i.*
), logged as (
  insert into /*schema*/saga_audit (saga, verb, step, actor, reason, from_status, to_status, fence)
  select id, @verb, @step, @actor, @reason, status, status, fence from changed
)
select statement_timestamp() as now, /*record*/
from changed
