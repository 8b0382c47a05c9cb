-- Entries returns what compact.sql is to shorten, and the revision that has it, or no row if the
-- saga has another owner.
select revision, entries
from /*schema*/saga
where id = @id and fence = @fence
