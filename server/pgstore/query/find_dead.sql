-- FindDead looks at a window of the Opaque records, from @after_created_at and @after_key on, and notes those whose
-- owners are dead. It returns one row: how many records were in the window, the last of them (null: there was
-- none), and no keys: they are noted. A key that has a note already keeps it: a younger note would lose against this statement's older look.
with seen as (
  select key, created_at, fence, state, lease_until
  from /*schema*/idempotency
  where effect = 3
    and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
  order by created_at, key
  limit @window
), noted as (
  insert into /*schema*/idempotency_attention (key, created_at, noted_at, fence, state)
  select key, created_at, statement_timestamp(), fence, state
  from seen
  where state = 1 and lease_until <= statement_timestamp()
  on conflict (key) do nothing
)
select (select count(*) from seen), last.created_at, last.key, null::uuid[] as dead
from (select) one
left join (select created_at, key from seen order by created_at desc, key desc limit 1) last on true
