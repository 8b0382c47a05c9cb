-- Sweep deletes at most so many intents that were finished an age ago. It reads their keys first,
-- and deletes by key. It waits for locks.
delete from /*schema*/idempotency_intent
where key = any (array(
    select key
    from /*schema*/idempotency_intent
    where done_at < statement_timestamp() - @age::interval
    order by done_at
    limit @limit))
