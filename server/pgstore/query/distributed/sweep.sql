-- Sweep deletes those of the records that are still past their time and not needed any more. The
-- row count says how many. It waits for locks.
delete from /*schema*/idempotency
where key = any (@keys::uuid[])
  and expires_at <= statement_timestamp()
  and (state in (3, 6)
    or (state = 2 and replay_until <= statement_timestamp())
    or (state = 1 and lease_until <= statement_timestamp() and effect <> 3))
