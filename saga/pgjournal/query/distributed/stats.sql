-- Stats counts sagas of a distributed table, as stats.sql does. Each node counts its own, and no
-- count stops early: it reads the indexes of all unfinished and finished sagas.
select 'unfinished', s.status, null::bytea, least(count(*), @most),
  statement_timestamp() - min(s.created_at) filter (where isfinite(s.created_at))
from /*schema*/saga s
where s.expires_at is null and s.status in (1, 2, 5)
group by s.status
union all
select 'finished', s.status, null, least(count(*), @most), null
from /*schema*/saga s
where s.expires_at is not null and s.status in (3, 4, 6)
group by s.status
union all
select 'due', null, s.plan, least(count(*), @most), null
from /*schema*/saga s
where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.wake_at <= statement_timestamp()
group by s.plan
union all
select 'asleep', null, s.plan, least(count(*), @most), null
from /*schema*/saga s
where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.wake_at > statement_timestamp()
group by s.plan
union all
select 'due', null, s.plan, least(count(*), @most), null
from /*schema*/saga s
join /*schema*/saga_engine e on e.id = s.engine
where s.status in (1, 2) and s.engine <> '00000000-0000-0000-0000-000000000000'
  and s.engine not in (select l.id from /*schema*/saga_engine l where l.lease_until > statement_timestamp() and not l.has_left)
  and (e.has_left or e.lease_until <= statement_timestamp())
group by s.plan
union all
select 'deferred', null, null, least(count(*), @most), null
from /*schema*/saga s
where s.status in (1, 2) and s.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
