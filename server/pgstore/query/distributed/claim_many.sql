-- ClaimMany is claim.sql for several keys of one shard. pgkit.RowsQuery repeats its row. With arrays and
-- "select" the coordinator would collect the rows first, send them to each shard on a connection of
-- its own, and lock the shards until the commit. If one request is too old the statement fails with
-- 23502, and claim.sql is sent for each. The claims come in key order, in every statement that
-- inserts several keys. So two of these statements never wait for each other in a circle.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, route, memo)
values (@key, @token, 1, 1, @effect, @fingerprint_version, @fingerprint, @parent,
  case when @first_sent::timestamptz is null or @first_sent >= statement_timestamp() - @window::interval then statement_timestamp() end,
  @first_sent, statement_timestamp() + @lease::interval, statement_timestamp() + @keep::interval, @route, @memo)
on conflict (key) do nothing
returning key, created_at, lease_until, expires_at
