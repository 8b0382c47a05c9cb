-- Channel returns the name of the channel that tells of the ends of runs in this table. The name
-- does not depend on the path that finds the table: channels belong to the database.
select 'fanonce_' || '/*schema*/idempotency'::regclass::oid
