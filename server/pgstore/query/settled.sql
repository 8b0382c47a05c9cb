-- Settled returns a row if the caller's own completion is what the record
-- holds: an answer to it was lost, and it was sent again.
select true
from /*schema*/idempotency
where key = @key and token = @token and fence = @fence and state = 2
