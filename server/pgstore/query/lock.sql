-- Lock returns the record, or no row, and keeps it from changing until the
-- transaction ends.
select clock_timestamp() as now, /*record*/,
  false as synchronous
from /*schema*/idempotency
where key = @key
for update
