-- Begin reads when an intent began that was there already.
select began_at from /*schema*/idempotency_intent where key = @key
