-- Heartbeat extends the lease that an engine has. It returns one row, and no row if the engine has
-- no lease or if its lease has ended: an ended lease is never extended. The leases are on every
-- node, and an insert of a distributed table cannot compare times with a row that is there. So
-- enroll.sql gives an engine its first lease.
update /*schema*/saga_engine
set lease_until = statement_timestamp() + @lease::interval, lease = @lease::interval
where id = @engine and lease_until > statement_timestamp() and not has_left
returning true
