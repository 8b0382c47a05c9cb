-- StaleNotes looks at a window of the notes, from @after_created_at and @after_key on. It returns one
-- row: how many notes were in the window, the last of them (null: there was none), and the keys of those
-- that sweep_attention.sql may delete (null: none). It does not look at the records, because the window
-- is on other nodes than they are.
select count(*), max(created_at), (array_agg(key order by created_at desc, key desc))[1], array_agg(key) filter (where is_old)
from (
  select key, created_at, noted_at < statement_timestamp() - interval '1 minute' as is_old
  from /*schema*/idempotency_attention
  where (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
  order by created_at, key
  limit @window
) w
