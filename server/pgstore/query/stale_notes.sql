-- StaleNotes looks at a window of the notes, from @after_created_at and @after_key on, for those whose
-- records have moved on or are gone. A program of version 1, and the sweep of the records, leave such
-- notes behind. It returns one row: how many notes were in the window, the last of them (null: there
-- was none), and the keys of the stale ones (null: none). The limit of the inner look makes the planner
-- find the record of each note by its key. A young note is not stale, see sweep_attention.sql.
select count(*), max(created_at), (array_agg(key order by created_at desc, key desc))[1], array_agg(key) filter (where is_stale)
from (
  select a.key, a.created_at, i.key is null and a.noted_at < statement_timestamp() - interval '1 minute' as is_stale
  from (
    select key, created_at, noted_at, fence, state
    from /*schema*/idempotency_attention
    where (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
    order by created_at, key
    limit @window
  ) a
  left join lateral (
    select key
    from /*schema*/idempotency
    where key = a.key and fence = a.fence and state = a.state
    limit 1
  ) i on true
) w
