-- SweepKeys returns at most @limit records that sweep.sql may delete, in the order of their expiry,
-- each with its time. It locks nothing, so it promises nothing.
select key, expires_at
from /*schema*/idempotency
where expires_at >= @after
  and expires_at <= statement_timestamp()
  and (state in (3, 6)
    or (state = 2 and replay_until <= statement_timestamp())
    or (state = 1 and lease_until <= statement_timestamp() and effect <> 3))
order by expires_at
limit @limit
