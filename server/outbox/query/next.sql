-- Next returns the oldest messages of each of the lanes, in order, but for the messages of aggregates that are put off.
select m.lane, m.position, m.attempts, m.created_at, m.key, m.topic, m.aggregate, m.headers, m.payload
from unnest(@lanes::smallint[]) l (lane)
cross join lateral (
  select *
  from /*schema*/outbox o
  where o.lane = l.lane and o.aggregate <> all (@put_off::text[]) and o.position <> all (@skipped::bigint[])
  order by o.position
  limit @limit
) m
order by m.position
