-- Failed notes that the broker did not take a message.
update /*schema*/outbox o
set attempts = attempts + 1, last_error = p.error
from unnest(@lanes::smallint[], @positions::bigint[], @errors::text[]) p (lane, position, error)
where o.lane = p.lane and o.position = p.position
