-- Stats counts sagas, after by_index.sql. It returns a row for each count. The row has the kind
-- of the count, its status or plan, the number, and, for unfinished sagas, the age of the oldest.
-- No number exceeds @most: to count a million takes too long, even in an index. The plans of
-- sagas without an engine are found one after the other, by the index. So are the lapsed engines that
-- own sagas, as in claimable.sql.
with recursive /*owners*/, plans (plan) as (
  (select s.plan
   from /*schema*/saga s
   where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000'
   order by s.plan
   limit 1)
  union all
  select n.plan
  from plans p
  cross join lateral (
    select s.plan
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.plan > p.plan
    order by s.plan
    limit 1) n
)
select 'unfinished', u.status, null::bytea, (
    select count(*)
    from (select from /*schema*/saga s where s.status = u.status and s.expires_at is null limit @most) c),
  (select statement_timestamp() - s.created_at
   from /*schema*/saga s
   where s.status = u.status and s.expires_at is null and isfinite(s.created_at)
   order by s.created_at
   limit 1)
from unnest('{1,2,5}'::smallint[]) as u (status)
union all
select 'finished', f.status, null, (
    select count(*)
    from (select from /*schema*/saga s where s.status = f.status and s.expires_at is not null limit @most) c), null
from unnest('{3,4,6}'::smallint[]) as f (status)
union all
select 'due', null, p.plan, (
    select count(*)
    from (
      select
      from /*schema*/saga s
      where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.plan = p.plan
        and s.wake_at <= statement_timestamp()
      limit @most) c), null
from plans p
union all
select 'asleep', null, p.plan, (
    select count(*)
    from (
      select
      from /*schema*/saga s
      where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.plan = p.plan
        and s.wake_at > statement_timestamp()
      limit @most) c), null
from plans p
union all
(select 'due', null, o.plan, count(*), null
 from owner w
 cross join lateral (select id, lease_until, has_left from /*schema*/saga_engine where id = w.id limit 1) e
 cross join lateral (
   select s.plan
   from /*schema*/saga s
   where s.status in (1, 2) and s.engine = e.id and s.engine <> '00000000-0000-0000-0000-000000000000'
   limit @most) o
 where e.has_left or e.lease_until <= statement_timestamp()
 group by o.plan)
union all
select 'deferred', null, null, (
    select count(*)
    from (
      select
      from /*schema*/saga s
      where s.status in (1, 2) and s.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
      limit @most) c), null
