-- FindAttention notes the keys that need a person and have no note, among the records that expire
-- from @after to @until. A program of version 1 made them so.
insert into /*schema*/idempotency_attention as a (key, created_at, noted_at, fence, state)
select i.key, i.created_at, statement_timestamp(), i.fence, i.state
from /*schema*/idempotency i
where i.expires_at >= @after and i.expires_at <= @until
  and i.state in (4, 5)
  and not exists (
    select from /*schema*/idempotency_attention n
    where n.key = i.key and n.fence = i.fence and n.state = i.state)
on conflict (key) do update
set created_at = excluded.created_at, noted_at = excluded.noted_at, fence = excluded.fence, state = excluded.state
