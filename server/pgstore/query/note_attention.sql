-- NoteAttention notes that a key needs a person, in the transaction that makes it so. It notes one
-- key, or none if the record has another fence. A newer note replaces an older one.
insert into /*schema*/idempotency_attention as a (key, created_at, noted_at, fence, state)
select key, created_at, statement_timestamp(), fence, @state
from /*schema*/idempotency
where key = @key and fence = @fence
on conflict (key) do update
set created_at = excluded.created_at, noted_at = excluded.noted_at, fence = excluded.fence, state = excluded.state
