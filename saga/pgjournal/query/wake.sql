-- Wake has a saga try at once what it waits to try again, at the revision that this was decided
-- for, and writes down who. It returns the saga if it did, and no row if the saga has moved on, is
-- over or stuck, or is gone. The saga keeps its owner, its fence and its revision, so that the
-- owner's next write finds it as it left it: that one hears of this by the audit log.
with woken as (
  update /*schema*/saga i
  set entries = i.entries || @entries, wake_at = case when i.wake_at > statement_timestamp() then statement_timestamp() else i.wake_at end
  from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s
  where s.lock_timeout is not null and i.id = @id and i.revision = @revision and i.status in (1, 2)
  returning i.*
), spilled as (
  insert into /*schema*/saga_result (saga, revision, position, result)
  select w.id, w.revision, r.n, r.result
  from woken w
  cross join unnest(@large::bytea[]) with ordinality as r (result, n)
), logged as (
  insert into /*schema*/saga_audit (saga, verb, step, actor, reason, from_status, to_status, fence)
  select id, @verb, @step, @actor, @reason, status, status, fence from woken
)
select id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status, deaths, cancel, clean,
  created_at, first_claimed_at, deadline_at, turned_at, resumed_at, wake_at, finished_at, expires_at, entries, cause, stuck_on, result, statement_timestamp() as now
from woken
