-- Begin reads the time when an existing intent began.
select began_at from /*schema*/idempotency_intent where key = @key
