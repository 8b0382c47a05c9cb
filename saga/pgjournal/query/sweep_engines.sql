-- SweepEngines deletes leases that ended long ago and that no running or compensating saga names.
-- It also stores an ended lease for each engine that owns sagas and never had a lease: claims
-- look sagas up by the leases of their engines.
with forgotten as (
  delete from /*schema*/saga_engine e
  where lease_until <= statement_timestamp() - @age::interval
    and not exists (select from /*schema*/saga s where s.status in (1, 2) and s.engine = e.id and s.engine <> '00000000-0000-0000-0000-000000000000')
)
insert into /*schema*/saga_engine (id, lease_until)
select distinct engine, '-infinity'::timestamptz
from /*schema*/saga s
where status in (1, 2) and engine <> '00000000-0000-0000-0000-000000000000'
  and engine <> 'ffffffff-ffff-ffff-ffff-ffffffffffff' -- of deferred sagas
  and not exists (select from /*schema*/saga_engine e where e.id = s.engine)
on conflict (id) do nothing
