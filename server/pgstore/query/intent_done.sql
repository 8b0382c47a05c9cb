-- Done marks an intent as finished, the first time that it is called. The row count says whether
-- there is such an intent.
update /*schema*/idempotency_intent
set done_at = least(done_at, statement_timestamp())
where key = @key
