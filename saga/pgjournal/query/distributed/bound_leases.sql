-- BoundLeases is the part of heartbeat.sql that shortens the leases of others if the clock has gone
-- back. For distributed tables, whose leases are on every node, only a sweep does it.
update /*schema*/saga_engine
set lease_until = statement_timestamp() + lease
where lease_until > statement_timestamp() + lease and lease_until > statement_timestamp() and not has_left
