-- Claim makes an engine the owner of sagas that claimable.sql returned, after by_index.sql, and
-- returns them. It passes over a saga that another transaction holds. It also passes over a saga
-- at another revision than claimable.sql saw: that saga may have an owner. An engine without a
-- lease gets no saga. An engine whose lease ended under a saga counts as dead, unless it says
-- that it left. It may say so later, so the saga remembers these engines. A negative number of
-- recovery_attempts is damage, and stays for people to see.
with held as (
  select o.*, array(
      select l.id
      from unnest(case when o.recovery_attempts > 0 then o.lapsed end || o.engine) as l (id)
      where l.id not in ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        and not exists (select from /*schema*/saga_engine e where e.id = l.id and e.has_left)) as died
  from (select unnest(@ids::uuid[]) as id, unnest(@revisions::bigint[]) as revision) c
  cross join lateral (
    select s.id, s.engine, s.recovery_attempts, s.lapsed, s.clean
    from /*schema*/saga s
    where s.id = c.id and s.revision = c.revision
    for update skip locked) o
  where exists (
    select from /*schema*/saga_engine
    where id = @engine and not has_left and lease_until > statement_timestamp())
)
update /*schema*/saga s
set engine = @engine, fence = s.fence + 1, revision = s.revision + 1, wakes = 0, clean = false, wake_at = null, slept_at = null,
  lapsed = h.died, recovery_attempts = case when s.recovery_attempts < 0 then s.recovery_attempts else cardinality(h.died) end, first_claimed_at = coalesce(s.first_claimed_at, statement_timestamp()), stuck_on = null
from held h
where s.id = h.id
returning clock_timestamp() as now, /*s.record*/, h.clean as was_clean
