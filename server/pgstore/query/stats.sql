-- Stats counts the records by state. It returns a row for each state that has records, with the age
-- of the oldest record. It reads the whole table.
select state, count(*), clock_timestamp() - min(created_at)
from /*schema*/idempotency
group by state
