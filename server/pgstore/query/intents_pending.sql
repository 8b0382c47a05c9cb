-- Pending lists unfinished intents that are older than an age, the oldest first.
select key, namespace, parts, began_at
from /*schema*/idempotency_intent
where done_at is null and began_at < (select clock_timestamp()) - @age::interval
order by began_at, key
limit @limit
