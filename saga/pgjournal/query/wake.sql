-- Wake makes a saga retry a waiting call at once, if the saga is at the given revision. It writes
-- down the actor. It returns the saga if it did, and no row if the saga has moved on, is over or
-- stuck, or is gone. The saga keeps its owner and its fence. Its revision grows, and so do its wakes:
-- an owner does not count them, so that its next write succeeds. The owner finds the waits gone
-- when it reads the saga again. An owner that gives the saga up before it knows leaves the saga
-- due, since wake_at stays.
with woken as (
  update /*schema*/saga i
  set revision = i.revision + 1, wakes = i.wakes + 1, entries = i.entries || @entries, wake_at = case
      when i.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then i.wake_at -- deferred
      when i.engine = '00000000-0000-0000-0000-000000000000' and i.wake_at <= n.now then i.wake_at
      else n.now end
  from (select statement_timestamp() as now) n
  cross join (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
  where s.lock_timeout is not null and -- plain
--distributed where
    i.id = @id and i.revision = @revision and i.status in (1, 2)
  returning i.*
), logged as (
  insert into /*schema*/saga_audit (saga, verb, step, actor, reason, from_status, to_status, fence)
  select id, @verb, @step, @actor, @reason, status, status, fence from woken
)
select statement_timestamp() as now, /*record*/
from woken
