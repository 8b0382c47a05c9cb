-- OnceConfirm locks what once.sql found in its way. The lock is WAL, so that the commit of
-- who believes the record waits for the standbys, as the record's own commit should have;
-- confirm.sql says why. It returns nothing that counts.
select true
from /*schema*/idempotency
where key = @key
for no key update
