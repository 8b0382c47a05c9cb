-- Claim is for one record of a distributed table. With "values" it is a single statement on one
-- node; with "select" the coordinator would collect the row first, which takes four times as long.
-- So a request that is too old has no created_at, and the statement fails with 23502. In the other
-- form it returns no row. The lock timeout goes before it, in its transaction.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, route, memo)
values (@key, @token, 1, 1, @effect, @fingerprint_version, @fingerprint, @parent,
  case when @first_sent::timestamptz is null or @first_sent >= statement_timestamp() - @window::interval then statement_timestamp() end,
  @first_sent, statement_timestamp() + @lease::interval, statement_timestamp() + @keep::interval, @route, @memo)
on conflict (key) do nothing
returning created_at, lease_until, expires_at
