-- Channel returns the name of the channel that tells of the ends of runs in this
-- table, whatever the path that finds it: channels are the database's.
select 'fanonce_' || '/*schema*/idempotency'::regclass::oid
