-- ReaderShow returns a saga without its input and its result, or no row. It locks nothing.
select clock_timestamp() as now, /*listed*/
from /*schema*/saga
where id = @id
