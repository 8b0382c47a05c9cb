-- CancelAbsent makes an absent key a tombstone. It returns one row if it did and none if there is a
-- record. It waits for a running claim, at most for the lock timeout.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version,
  created_at, lease_until, expires_at)
select @key, @token, 1, 6, 0, 0, s.now, s.now, s.now + @keep::interval
from (select statement_timestamp() as now) s
on conflict (key) do nothing
returning true
