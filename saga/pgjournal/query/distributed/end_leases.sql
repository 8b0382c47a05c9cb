-- EndLeases stores an ended lease for each of @owners that never had a lease: claims look sagas up
-- by the leases of their engines.
insert into /*schema*/saga_engine (id, lease_until)
select o.id, '-infinity'::timestamptz
from (select unnest(@owners::uuid[]) as id) o
on conflict (id) do nothing
