-- SweepAttention deletes the notes whose records have moved on or are gone. A program of version 1,
-- and the sweep of the records, leave such notes behind. A young note stays. Its transaction may
-- have ended while this statement waited for the lock of an older note of the key, and this
-- statement would compare the younger note with the record of before.
delete from /*schema*/idempotency_attention a
where a.noted_at < statement_timestamp() - interval '1 minute'
  and not exists (
    select from /*schema*/idempotency i
    where i.key = a.key and i.fence = a.fence and i.state = a.state)
