-- Claim makes an engine the owner of orphans, and returns them. It returns no row
-- if there are none, or if the engine has no lease: lease.sql tells which.
-- Candidates are looked up by the engines whose lease is over, so that sagas with
-- a living owner are not read. Nobody's are under the zero engine.
-- There are more candidates than are wanted, since another claim may have locked the
-- oldest; and each must still be at the revision that made it one: a lock that was
-- waited for, or taken just after another claim, is on a saga that has an owner.
-- Suspects are looked for apart, so that many of them hide no other saga.
-- Parked sagas are under an engine of their own, and have plans of their own.
with lapsed as materialized (
  select id, not has_left as died
  from /*schema*/saga_engine
  where has_left or lease_until <= (select clock_timestamp())
  union all
  select '00000000-0000-0000-0000-000000000000'::uuid, false
), source (id, died, plans) as (
  select id, died, @plans::bytea[] from lapsed
  union all
  select 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid, false, @parked::bytea[] where cardinality(@parked::bytea[]) > 0
), candidate as materialized (
  select c.id, c.revision, c.created_at, c.suspect, l.died
  from source l
  cross join (values (false, @limit::bigint), (true, @suspects::bigint)) as kind (suspect, wanted)
  cross join lateral (
    select o.id, o.revision, o.created_at, kind.suspect
    from /*schema*/saga o
    where o.driven and o.expires_at is null and o.engine = l.id and o.status in (1, 2)
      and o.plan = any (l.plans) and (o.wake_at is null or o.wake_at <= clock_timestamp())
      and (o.deaths + l.died::integer >= @suspect_deaths::integer) = kind.suspect
    order by o.created_at
    limit 8 * kind.wanted) c
), healthy as (
  select o.id, c.died, c.created_at
  from (select * from candidate where not suspect order by created_at, id) c
  cross join lateral (
    select s.id from /*schema*/saga s where s.id = c.id and s.revision = c.revision for update skip locked) o
  limit @limit
), suspect as (
  select o.id, c.died, c.created_at
  from (select * from candidate where suspect order by created_at, id) c
  cross join lateral (
    select s.id from /*schema*/saga s where s.id = c.id and s.revision = c.revision for update skip locked) o
  limit @suspects
), orphan as (
  select id, died
  from (select * from healthy union all select * from suspect) o
  where exists (
    select from /*schema*/saga_engine
    where id = @engine and not has_left and lease_until > clock_timestamp())
  order by created_at, id
  limit @limit
)
update /*schema*/saga s
set engine = @engine, fence = s.fence + 1, revision = s.revision + 1, deaths = s.deaths + o.died::integer,
  first_claimed_at = coalesce(s.first_claimed_at, statement_timestamp()), stuck_on = null
from orphan o
where s.id = o.id
returning s.id, s.engine, s.plan, s.input_hash, s.name, s.version, s.scope, s.key, s.input, s.fence, s.revision, s.status, s.deaths, s.cancel,
  s.created_at, s.first_claimed_at, s.deadline_at, s.turned_at, s.resumed_at, s.wake_at, s.finished_at, s.expires_at, s.entries, s.cause, s.stuck_on, s.result, clock_timestamp() as now
