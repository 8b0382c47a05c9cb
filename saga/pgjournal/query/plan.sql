-- Plan stores a plan. It returns one row if it did, and none if there is one of
-- that name and version: then read_plan.sql shows it.
insert into /*schema*/saga_plan (name, version, hash, lines)
values (@name, @version, @hash, @lines)
on conflict (name, version) do nothing
returning true
