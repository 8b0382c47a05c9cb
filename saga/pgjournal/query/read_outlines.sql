-- ReadOutlines returns sagas for callers that wait for them, without the columns that may be large. It
-- locks nothing.
select clock_timestamp() as now, /*outline*/
from /*schema*/saga
where id = any (@ids::uuid[])
