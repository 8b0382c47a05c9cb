-- Notify sends an empty notification, to find out whether listeners hear it.
select pg_notify('fanonce_' || '/*schema*/idempotency'::regclass::oid, '')
