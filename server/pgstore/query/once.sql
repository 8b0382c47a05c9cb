-- Once makes a key completed in the caller's own transaction, without a claim before it. It returns
-- one row for the first, and none if there is a record: once_record.sql says which. The statement
-- waits for a transaction that is about to write the same key.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint,
  created_at, lease_until, expires_at, replay_until, status)
values (@key, @token, 1, 2, 1, @fingerprint_version, @fingerprint,
  statement_timestamp(), statement_timestamp(), statement_timestamp() + @keep::interval, statement_timestamp() + @keep::interval, 200)
on conflict (key) do nothing
returning true
