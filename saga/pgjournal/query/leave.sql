-- Leave ends an engine's lease for good, and says that the engine did not die.
-- The row count is 1.
insert into /*schema*/saga_engine as e (id, lease_until, has_left)
values (@engine, statement_timestamp(), true)
on conflict (id) do update
set lease_until = excluded.lease_until, has_left = true
