-- SweepEngines deletes leases that ended long ago and that no running or compensating saga names.
-- It also stores an ended lease for each engine that owns sagas and never had a lease: claims
-- look sagas up by the leases of their engines. It also looks at a batch of old signals: it deletes those without a saga, and
-- has the others wait for the next look.
with forgotten as (
  delete from /*schema*/saga_engine e
  where lease_until <= statement_timestamp() - @age::interval
    and not exists (select from /*schema*/saga s where s.status in (1, 2) and s.engine = e.id and s.engine <> '00000000-0000-0000-0000-000000000000')
), old as (
  select g.ctid as place, (select true from /*schema*/saga s where s.id = g.saga limit 1) is not null as used
  from /*schema*/saga_signal g
  where g.check_at <= statement_timestamp()
  order by g.check_at
  limit @signals
  for update of g skip locked
), unused as (
  delete from /*schema*/saga_signal
  where ctid = any (array(select place from old where not used))
), kept as (
  update /*schema*/saga_signal
  set check_at = statement_timestamp() + @retention::interval
  where ctid = any (array(select place from old where used))
)
insert into /*schema*/saga_engine (id, lease_until)
select distinct engine, '-infinity'::timestamptz
from /*schema*/saga s
where status in (1, 2) and engine <> '00000000-0000-0000-0000-000000000000'
  and engine <> 'ffffffff-ffff-ffff-ffff-ffffffffffff' -- of deferred sagas
  and not exists (select from /*schema*/saga_engine e where e.id = s.engine)
on conflict (id) do nothing
