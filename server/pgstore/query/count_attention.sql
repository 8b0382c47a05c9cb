-- CountAttention counts the keys that need a person, by state. It returns a row for each state that
-- has such keys, with the age of the oldest. The limit makes the planner look up the record of each
-- note by its key, instead of reading all records. A dead run is for the reconciler first.
select i.state, count(*), clock_timestamp() - min(i.created_at)
from /*schema*/idempotency_attention a
cross join lateral (
  select state, created_at
  from /*schema*/idempotency
  where key = a.key and fence = a.fence and state = a.state
  limit 1
) i
where a.state <> 1
group by i.state
