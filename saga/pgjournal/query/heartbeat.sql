-- Heartbeat gives an engine its first lease, or extends the one that it has. It returns one row,
-- and no row if that lease has ended: an ended lease is never extended.
insert into /*schema*/saga_engine as e (id, lease_until)
values (@engine, clock_timestamp() + @lease::interval)
on conflict (id) do update
set lease_until = clock_timestamp() + @lease::interval
where e.lease_until > clock_timestamp() and not e.has_left
returning true
