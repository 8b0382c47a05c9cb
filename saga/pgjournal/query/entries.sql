-- Entries returns what compact.sql is to shorten, or no row if the saga has moved on.
select entries
from /*schema*/saga
where id = @id and revision = @revision
