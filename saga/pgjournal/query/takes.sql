-- Takes tells whether the saga takes signals, or returns no row if it is not there.
select status in (1, 5) and failed_at is null
from /*schema*/saga
where id = @id
