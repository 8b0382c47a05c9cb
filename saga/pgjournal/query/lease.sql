-- Lease returns one row: whether the engine has a lease.
select exists (
  select from /*schema*/saga_engine
  where id = @engine and not has_left and lease_until > clock_timestamp())
