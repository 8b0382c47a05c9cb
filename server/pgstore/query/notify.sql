-- Notify sends a notification that tells nothing, to find out who hears it.
select pg_notify('fanonce_' || '/*schema*/idempotency'::regclass::oid, '')
