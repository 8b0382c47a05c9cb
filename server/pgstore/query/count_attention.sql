-- CountAttention counts the keys that need a person, by state. It returns a row for each state that
-- has such keys, with the age of the oldest. It looks at the 2,500 oldest notes: it is asked again
-- and again, and more than that many keys are no number that a person goes through. The limit of the
-- inner look makes the planner find the record of each note by its key, instead of reading all
-- records. The note of a dead run does not count: a sweeper makes its
-- key unknown.
select i.state, count(*), clock_timestamp() - min(i.created_at)
from (
  select key, fence, state
  from /*schema*/idempotency_attention
  where state <> 1
  order by created_at, key
  limit 2500
) a
cross join lateral (
  select state, created_at
  from /*schema*/idempotency
  where key = a.key and fence = a.fence and state = a.state
  limit 1
) i
group by i.state
