-- ReaderDead returns a page of the runs of Opaque claims whose owners are dead, the oldest first. It looks at the @young
-- youngest Opaque records, which have an index, and at the notes that find_dead.sql made of older ones. It would
-- read all Opaque records otherwise: no index may name the state, which changes.
select statement_timestamp() as now, /*i.outline*/
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
) dead
cross join lateral (
  select /*outline*/
  from /*schema*/idempotency
  where key = dead.key
    and effect = 3
    and state = 1
    and lease_until <= statement_timestamp()
    and (@route::text = '' or route = @route::text)
  limit 1
) i
where isfinite(i.created_at) and (i.created_at, i.key) > (@after_created_at::timestamptz, @after_key::uuid)
order by i.created_at, i.key
limit @limit
