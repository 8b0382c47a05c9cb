-- Write adds a message to the transaction around it. The lock of the aggregate comes before the position, and ends
-- with the transaction. So positions of one aggregate grow in the order of commits. A null @lock means no order.
insert into /*schema*/outbox (lane, key, topic, aggregate, headers, payload)
select @lane, @key, @topic, @aggregate, @headers, @payload
from (
  select case when @lock::bigint is null then '' else pg_advisory_xact_lock(@lock)::text end as held
) l
where l.held is not null
