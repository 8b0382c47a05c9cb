-- Stats counts what waits, and since when.
select count(*), count(*) filter (where attempts > 0), coalesce(extract(epoch from clock_timestamp() - min(created_at)), 0)::float8,
  (select count(*) from /*schema*/outbox_relay where lease_until >= clock_timestamp())
from /*schema*/outbox
