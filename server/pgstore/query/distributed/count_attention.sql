-- CountAttention counts the keys that need a person, by state. It returns a row for each state that
-- has such keys, with the age of the oldest. It looks at the 2,500 oldest notes, as ../count_attention.sql
-- does. The array makes each node find the note and the record of these keys one by one.
select i.state, count(*), clock_timestamp() - min(i.created_at)
from /*schema*/idempotency_attention a
join /*schema*/idempotency i on i.key = a.key and i.fence = a.fence and i.state = a.state
where a.key = any (array(
    select key
    from /*schema*/idempotency_attention
    where state <> 1
    order by created_at, key
    limit 2500))
  and a.state <> 1
group by i.state
