-- ReaderDead returns a page of the runs of Opaque claims whose owners are dead, the oldest first. It looks at the @young
-- youngest Opaque records and at the notes that find_dead.sql and note_dead.sql make of older ones, as ../reader_dead.sql
-- does. The array makes each node find these records by their keys.
select statement_timestamp() as now, /*outline*/
from /*schema*/idempotency
where key = any (array(
    select key
    from (
      (select key
      from (
        select key, state, lease_until
        from /*schema*/idempotency
        where effect = 3 and created_at < 'infinity'
        order by created_at desc, key desc
        limit @young
      ) young
      where state = 1 and lease_until <= statement_timestamp())
      union
      (select key
      from /*schema*/idempotency_attention
      where state = 1
        and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
      order by created_at, key
      limit @limit)
    ) dead))
  and effect = 3
  and state = 1
  and lease_until <= statement_timestamp()
  and (@route::text = '' or route = @route::text)
  and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
order by created_at, key
limit @limit
