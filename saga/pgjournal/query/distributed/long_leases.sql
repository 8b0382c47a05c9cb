-- LongLeases returns the engines whose leases last for longer than they asked for, since the clock has
-- gone back, and what they asked for.
select id, lease
from /*schema*/saga_engine
where lease_until > statement_timestamp() + lease and lease_until > statement_timestamp() and not has_left
