-- OnceRecord returns what once.sql found in its way, or no row. The last column tells
-- whether commits wait for a standby, as read.sql's.
select state, fingerprint_version, fingerprint, current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/idempotency
where key = @key
