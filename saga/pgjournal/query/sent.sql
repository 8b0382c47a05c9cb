-- Sent returns the value that the saga was sent under the name, or null if its wait has ended, or no row.
select value
from /*schema*/saga_signal
where saga = @id and name = @name
