-- CancelAbsent makes an absent key a tombstone. It returns one row if it did and none if there is a
-- record. It waits for a running claim, at most for the lock timeout.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version,
  created_at, lease_until, expires_at)
values (@key, @token, 1, 6, 0, 0, statement_timestamp(), statement_timestamp(), statement_timestamp() + @keep::interval)
on conflict (key) do nothing
returning true
