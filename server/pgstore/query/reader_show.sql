-- ReaderShow returns the record of a key for people, or no row. It names no column that the observer
-- may not read.
select statement_timestamp() as now, /*outline*/
from /*schema*/idempotency
where key = @key
