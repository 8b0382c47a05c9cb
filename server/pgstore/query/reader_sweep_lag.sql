-- ReaderSweepLag returns one row: how long the records that can be swept have waited for it, or null if
-- there is none. It reads the records that expired first, and not more than @limit of them: unknown
-- and quarantined records stay, however many there are. The conditions are those of sweep.sql.
select max(statement_timestamp() - greatest(expires_at, case when state = 2 then replay_until when state = 1 then lease_until end))
from (
  select state, effect, expires_at, replay_until, lease_until
  from /*schema*/idempotency
  where expires_at <= statement_timestamp()
  order by expires_at
  limit @limit
) first
where state in (3, 6)
  or (state = 2 and replay_until <= statement_timestamp())
  or (state = 1 and lease_until <= statement_timestamp() and effect <> 3)
