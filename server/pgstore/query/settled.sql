-- Settled returns the state of a record that its owner cannot end by settle.sql: completed, if the
-- owner did that before and the answer was lost, or unknown. No row means that the record has
-- another owner or another state.
select state
from /*schema*/idempotency
where key = @key and token = @token and fence = @fence and state in (2, 4)
