-- OnceConfirm locks the record that once.sql ran into. The lock is WAL, so the commit of a caller
-- that trusts the record waits for the standbys, as the record's own commit should have done.
-- confirm.sql says why. The rows that it returns mean nothing.
select true
from /*schema*/idempotency
where key = @key
for no key update
