-- Claim makes an engine the owner of one saga that claimable.sql returned, and returns the saga. It
-- is claim.sql for a distributed table, whose rows are locked by key. The engines' leases are on
-- every node, so the whole statement is carried out by the node of the saga.
with held as (
  select o.id, o.clean, array(
      select l.id
      from unnest(case when o.recovery_attempts > 0 then o.lapsed end || o.engine) as l (id)
      where l.id not in ('00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        and not exists (select from /*schema*/saga_engine e where e.id = l.id and e.has_left)) as died
  from /*schema*/saga o
  where o.id = @id and o.revision = @revision and exists (
    select from /*schema*/saga_engine
    where id = @engine and not has_left and lease_until > statement_timestamp())
  for update of o skip locked
), claimed as (
  update /*schema*/saga s
  set engine = @engine, fence = s.fence + 1, revision = s.revision + 1, wakes = 0, clean = false, wake_at = null, slept_at = null,
    lapsed = h.died, recovery_attempts = case when s.recovery_attempts < 0 then s.recovery_attempts else cardinality(h.died) end,
    first_claimed_at = coalesce(s.first_claimed_at, n.now), stuck_on = null
  from held h
  cross join (select statement_timestamp() as now) n
  where s.id = h.id and s.id = @id
  returning s.*, h.clean as was_clean
)
select clock_timestamp() as now, /*record*/, was_clean
from claimed
