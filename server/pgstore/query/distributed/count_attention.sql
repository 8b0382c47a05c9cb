-- CountAttention counts the keys that need a person, by state. It returns a row for each state that
-- has such keys, with the age of the oldest.
select i.state, count(*), clock_timestamp() - min(i.created_at)
from /*schema*/idempotency_attention a
join /*schema*/idempotency i on i.key = a.key and i.fence = a.fence and i.state = a.state
group by i.state
