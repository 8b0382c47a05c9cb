-- Claimable returns unowned sagas that claim.sql may take, after by_index.sql, in the order of Claim.
-- It locks nothing. It returns at least one row. The first column tells whether the engine has a
-- lease. The other columns are null if there are no such sagas. Deferred sagas belong to the engine
-- ffffffff…, and the caller names their plans in @deferred. The statement does not read sagas with
-- a living engine, sagas that sleep, or sagas of other plans. It finds the lapsed engines by the
-- index of owned sagas: it looks between the IDs of the living ones for an owner, and then for the
-- next one. So a lapsed engine that has no saga any more is not looked at. @passed lists sagas that
-- an earlier call returned and that another transaction held. A damaged wake_at is for people: a
-- claim would overwrite it. Sagas that were given up at a time to come are early: the clock has gone
-- back, and their wait would last as much longer. Their next owner waits by the difference.
with recursive /*owners*/, due as (
  select o.id, o.revision, p.plan, o.wake_at as since, o.created_at
  from unnest(@plans::bytea[]) as p (plan)
  cross join lateral (
    select s.id, s.revision, s.wake_at, s.created_at
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.plan = p.plan
      and s.wake_at <= statement_timestamp() and isfinite(s.wake_at) and s.id <> all (@passed::uuid[])
    order by s.wake_at
    limit @per_plan) o
), early as (
  select o.id, o.revision, p.plan, o.slept_at as since, o.created_at
  from unnest(@plans::bytea[]) as p (plan)
  cross join lateral (
    select s.id, s.revision, s.slept_at, s.created_at
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.plan = p.plan
      and s.slept_at > statement_timestamp() and s.wake_at > statement_timestamp() and isfinite(s.wake_at)
      and s.id <> all (@passed::uuid[])
    order by s.slept_at
    limit @per_plan) o
), gone as materialized (
  select e.id, e.lease_until, e.has_left
  from owner o
  cross join lateral (select id, lease_until, has_left from /*schema*/saga_engine where id = o.id limit 1) e
  where e.has_left or e.lease_until <= statement_timestamp()
), lapsed as (
  select o.id, o.revision, p.plan, e.lease_until as since, o.created_at
  from gone e
  cross join unnest(@plans::bytea[]) as p (plan)
  cross join lateral (
    select s.id, s.revision, s.created_at
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine = e.id and s.engine <> '00000000-0000-0000-0000-000000000000'
      and s.plan = p.plan and s.id <> all (@passed::uuid[])
      and (s.recovery_attempts = 0 or e.has_left or (
        select d.n = 0 or e.lease_until
          + @backoff::interval * (2 ^ least(d.n - 1, 4) * (1 + get_byte(uuid_send(s.id), d.n % 16) / 255.0)) <= statement_timestamp()
        from (
          select count(*)::integer as n
          from unnest(s.lapsed) as l (id)
          where not exists (select from /*schema*/saga_engine b where b.id = l.id and b.has_left)) d))
    order by s.created_at
    limit @per_plan) o
), deferred as (
  select o.id, o.revision, p.plan, o.created_at as since, o.created_at
  from unnest(@deferred::bytea[]) as p (plan)
  cross join lateral (
    select s.id, s.revision, s.created_at
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff' and s.plan = p.plan
      and s.id <> all (@passed::uuid[])
    order by s.created_at
    limit @per_plan) o
), ranked as (
  select *, row_number() over (partition by plan order by since, created_at, id) as place
  from (select * from due union all select * from early union all select * from lapsed union all select * from deferred) o
)
select me.has_lease, o.id, o.revision
from (
  select exists (
    select from /*schema*/saga_engine
    where id = @engine and not has_left and lease_until > statement_timestamp()) as has_lease) me
left join lateral (
  select id, revision
  from ranked
  where place <= @per_plan
  order by place, since, created_at, id
  limit @limit) o on true
