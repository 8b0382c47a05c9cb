-- BoundLease is the part of heartbeat.sql that shortens the lease of another engine if the clock has
-- gone back. For distributed tables, whose leases are on every node, only a sweep does it, one lease after
-- the other: no node may compute a time of its own from a row.
update /*schema*/saga_engine
set lease_until = statement_timestamp() + @lease::interval
where id = @engine and lease_until > statement_timestamp() + @lease::interval and not has_left
