-- Heartbeat gives an engine its first lease, or extends the one that it has. It returns one row,
-- and no row if that lease has ended: an ended lease is never extended. If the clock has gone back,
-- the leases of engines that died would last as much longer. So no other lease lasts for longer than
-- its engine asked for. A living engine extends its own lease before that.
with bounded as (
  update /*schema*/saga_engine e
  set lease_until = clock_timestamp() + e.lease
  where e.id = any (array(
      select o.id
      from /*schema*/saga_engine o
      where o.lease_until > statement_timestamp() + o.lease and o.lease_until > statement_timestamp() and not o.has_left and o.id <> @engine
      for update skip locked))
)
insert into /*schema*/saga_engine as e (id, lease_until, lease)
values (@engine, clock_timestamp() + @lease::interval, @lease)
on conflict (id) do update
set lease_until = clock_timestamp() + @lease::interval, lease = @lease
where e.lease_until > clock_timestamp() and not e.has_left
returning true
