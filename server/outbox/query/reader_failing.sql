-- ReaderFailing returns a page of the messages that the broker did not take at least once, in the order in which they go.
select lane, position, topic, aggregate, attempts, created_at, clock_timestamp() - created_at, octet_length(payload), coalesce(last_error, '')
from /*schema*/outbox
where attempts > 0 and (lane, position) > (@lane::smallint, @position::bigint)
order by lane, position
limit @limit
