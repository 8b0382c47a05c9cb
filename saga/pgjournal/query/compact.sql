-- Compact takes replaced entries out of a log. It makes room for the write that found none, and for
-- further writes. It returns one row if it did, and no row if the saga is at another revision than
-- entries.sql saw: it would take out what came since, such as a person's wake. The revision stays,
-- since a reader finds the same entries as before.
update /*schema*/saga
set entries = @entries, entry_room = 65536 + 2 * octet_length(@entries::bytea) + @needed::integer
from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
where s.lock_timeout is not null and -- plain
--distributed where
  id = @id and fence = @fence and revision = @revision
returning true
