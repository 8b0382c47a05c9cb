-- The owners of unfinished sagas that may be gone: the common table expression of claimable.sql and stats.sql. It looks
-- between the IDs of the living engines for an owner, and then for the next one.
owner (id, before) as (
  select l.id, lead(l.id, 1, 'ffffffff-ffff-ffff-ffff-ffffffffffff') over (order by l.id)
  from (
    select '00000000-0000-0000-0000-000000000000'::uuid as id
    union all
    select id
    from /*schema*/saga_engine
    where lease_until > statement_timestamp() and not has_left) l
  union all
  select n.engine, o.before
  from owner o
  cross join lateral (
    select s.engine
    from /*schema*/saga s
    where s.status in (1, 2) and s.engine <> '00000000-0000-0000-0000-000000000000' and s.engine > o.id and s.engine < o.before
    order by s.engine
    limit 1) n
)
