-- Claimable is claimable.sql for the sagas of one plan in a distributed table. Each node finds its
-- own by its index, and the coordinator takes the first. @deferred tells whether deferred sagas count.
-- The last two columns are the order of Claim. A node cannot look between the living engines, as
-- claimable.sql does. It passes over their sagas, and reads the lapsed leases only if others are left.
select me.has_lease, o.id, o.revision, o.since, o.created_at
from (
  select count(*) > 0 as has_lease
  from /*schema*/saga_engine
  where id = @engine and not has_left and lease_until > statement_timestamp()) me
left join (
  (select s.id, s.revision, s.wake_at as since, s.created_at
   from /*schema*/saga s
   where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.plan = @plan
     and s.wake_at <= statement_timestamp() and isfinite(s.wake_at) and s.id <> all (@passed::uuid[])
   order by s.wake_at
   limit @limit)
  union all
  (select s.id, s.revision, s.slept_at as since, s.created_at
   from /*schema*/saga s
   where s.status in (1, 2) and s.engine = '00000000-0000-0000-0000-000000000000' and s.plan = @plan
     and s.slept_at > statement_timestamp() and s.wake_at > statement_timestamp() and isfinite(s.wake_at)
     and s.id <> all (@passed::uuid[])
   order by s.slept_at
   limit @limit)
  union all
  (select s.id, s.revision, e.lease_until as since, s.created_at
   from /*schema*/saga s
   join /*schema*/saga_engine e on e.id = s.engine
   where s.status in (1, 2) and s.engine <> '00000000-0000-0000-0000-000000000000' and s.plan = @plan
     and s.engine not in (select l.id from /*schema*/saga_engine l where l.lease_until > statement_timestamp() and not l.has_left)
     and (e.has_left or e.lease_until <= statement_timestamp()) and s.id <> all (@passed::uuid[])
     and (s.recovery_attempts = 0 or e.has_left or (
       select d.n = 0 or e.lease_until
         + @backoff::interval * (2 ^ least(d.n - 1, 4) * (1 + get_byte(uuid_send(s.id), d.n % 16) / 255.0)) <= statement_timestamp()
       from (
         select cardinality(s.lapsed) - count(*)::integer as n
         from /*schema*/saga_engine b
         where b.id = any (s.lapsed) and b.has_left) d))
   order by e.lease_until, s.created_at
   limit @limit)
  union all
  (select s.id, s.revision, s.created_at as since, s.created_at
   from /*schema*/saga s
   where @deferred and s.status in (1, 2) and s.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff' and s.plan = @plan
     and s.id <> all (@passed::uuid[])
   order by s.created_at
   limit @limit)) o on true
order by o.since, o.created_at, o.id
limit @limit
