-- Published deletes messages that the broker has.
delete from /*schema*/outbox o
using unnest(@lanes::smallint[], @positions::bigint[]) p (lane, position)
where o.lane = p.lane and o.position = p.position
