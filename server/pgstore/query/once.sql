-- Once makes a key completed in the caller's own transaction, without a claim before it. It returns
-- one row for the first, and none if there is a record: once_record.sql says which. The statement
-- waits for a transaction that is about to write the same key.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint,
  created_at, lease_until, expires_at, replay_until, status)
select @key, @token, 1, 2, 1, @fingerprint_version, @fingerprint,
  s.now, s.now, s.now + @keep::interval, s.now + @keep::interval, 200
from (select statement_timestamp() as now) s
on conflict (key) do nothing
returning true
