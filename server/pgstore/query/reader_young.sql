-- ReaderYoung counts the @limit youngest records by state. It returns a row for each state that these
-- have, with the age of the oldest. It reads an index on (created_at, key) from its end.
select state, count(*), statement_timestamp() - min(created_at)
from (
  select state, created_at
  from /*schema*/idempotency
  where created_at < 'infinity'
  order by created_at desc, key desc
  limit @limit
) young
group by state
