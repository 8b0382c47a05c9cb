-- FindDead looks at a window of the Opaque records, from @after_created_at and @after_key on. It returns one row: how many
-- records were in the window, the last of them (null: there was none), and the keys of those whose owners are dead (null:
-- none). note_dead.sql notes them: the window is on other nodes than they are.
select count(*) as count, max(created_at) as created_at, (array_agg(key order by created_at desc, key desc))[1] as key,
  array_agg(key) filter (where is_dead) as dead
from (
  select key, created_at, state = 1 and lease_until <= statement_timestamp() as is_dead
  from /*schema*/idempotency
  where effect = 3
    and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
  order by created_at, key
  limit @window
) w
