-- Settled returns a row if the record holds the caller's own completion. Then the answer to the
-- completion was lost, and the completion was sent again.
select true
from /*schema*/idempotency
where key = @key and token = @token and fence = @fence and state = 2
