-- Started returns what a saga was started as, or no row.
select name, input_hash
from /*schema*/saga
where id = @id
