-- SweepEngines deletes leases that ended long ago, but not those of @owners: owners.sql returned
-- them. A statement on the leases, which are on every node, cannot read the distributed sagas.
delete from /*schema*/saga_engine
where lease_until <= statement_timestamp() - @age::interval and id <> all (@owners::uuid[])
