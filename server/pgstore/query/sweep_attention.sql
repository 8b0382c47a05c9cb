-- SweepAttention deletes those of the notes that are still stale: their records have moved on or are
-- gone. A young note stays. Its transaction may have ended while this statement waited for the lock of
-- an older note of the key, and this statement would compare the younger note with the record of before.
-- The inner look finds the notes one by one: for many keys the planner would read all notes.
delete from /*schema*/idempotency_attention a
where a.ctid = any (array(
    select n.ctid
    from unnest(@keys::uuid[]) as k (key)
    cross join lateral (select ctid from /*schema*/idempotency_attention where key = k.key limit 1) n))
  and a.noted_at < statement_timestamp() - interval '1 minute'
  and not exists (
    select from /*schema*/idempotency i
    where i.key = a.key and i.fence = a.fence and i.state = a.state)
