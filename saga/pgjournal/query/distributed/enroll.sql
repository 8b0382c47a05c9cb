-- Enroll gives a new engine its first lease, where the tables are distributed. It returns one row,
-- and no row if the engine had a lease before.
insert into /*schema*/saga_engine (id, lease_until, lease)
values (@engine, statement_timestamp() + @lease::interval, @lease::interval)
on conflict (id) do nothing
returning true
