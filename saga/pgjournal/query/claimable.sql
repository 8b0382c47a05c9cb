-- Claimable returns orphans that claim.sql may take, after by_index.sql, in the order of
-- Claim. It locks nothing. It returns at least one row: the first column tells whether the
-- engine has a lease, and the others are null where there is no orphan.
-- Parked sagas are under an engine of their own, and have plans of their own.
-- Sagas with a living engine are not read, and nor are those that sleep. passed are sagas
-- that an earlier look returned and that somebody else held. A damaged wake_at is for people:
-- a claim would overwrite it.
with due as (
  select o.id, o.revision, p.plan, o.wake_at as since, o.created_at
  from unnest(@plans::bytea[]) as p (plan)
  cross join lateral (
    select s.id, s.revision, s.wake_at, s.created_at
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.plan = p.plan
      and s.wake_at <= statement_timestamp() and isfinite(s.wake_at) and s.id <> all (@passed::uuid[])
    order by s.wake_at
    limit @per_plan) o
), lapsed as (
  select o.id, o.revision, o.plan, e.lease_until as since, o.created_at
  from /*schema*/saga_engine e
  cross join lateral (
    select s.id, s.revision, s.plan, s.created_at
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine = e.id and s.engine <> '00000000-0000-0000-0000-000000000000'
      and s.plan = any (@plans::bytea[]) and s.id <> all (@passed::uuid[])
      and (s.deaths = 0 or e.has_left or (
        select d.n = 0 or e.lease_until
          + @backoff::interval * (2 ^ least(d.n - 1, 4) * (1 + get_byte(uuid_send(s.id), d.n % 16) / 255.0)) <= statement_timestamp()
        from (
          select count(*)::integer as n
          from unnest(s.lapsed) as l (id)
          where not exists (select from /*schema*/saga_engine b where b.id = l.id and b.has_left)) d))
    order by s.created_at
    limit @limit) o
  where e.has_left or e.lease_until <= statement_timestamp()
), parked as (
  select o.id, o.revision, p.plan, o.created_at as since, o.created_at
  from unnest(@parked::bytea[]) as p (plan)
  cross join lateral (
    select s.id, s.revision, s.created_at
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff' and s.plan = p.plan
      and s.id <> all (@passed::uuid[])
    order by s.created_at
    limit @per_plan) o
), ranked as (
  select *, row_number() over (partition by plan order by since, created_at, id) as place
  from (select * from due union all select * from lapsed union all select * from parked) o
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
