-- DropAttention deletes the note of a key, in the transaction after which no person is needed.
delete from /*schema*/idempotency_attention
where key = @key
