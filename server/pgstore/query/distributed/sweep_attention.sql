-- SweepAttention deletes those of the notes that are still stale: their records have moved on or are
-- gone. It keeps young notes, see ../sweep_attention.sql.
delete from /*schema*/idempotency_attention a
where a.key = any (@keys::uuid[])
  and a.noted_at < statement_timestamp() - interval '1 minute'
  and not exists (
    select from /*schema*/idempotency i
    where i.key = a.key and i.fence = a.fence and i.state = a.state)
