-- Compact puts entries without what was replaced in place of those that there are,
-- and makes room for as much again. It returns one row if it did, and none if the
-- saga has moved on. It is no revision: what there is to read stays the same.
update /*schema*/saga
set entries = @entries, entry_room = 65536 + 2 * octet_length(@entries::bytea)
from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s
where s.lock_timeout is not null and id = @id and fence = @fence and revision = @revision
returning true
