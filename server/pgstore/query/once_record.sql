-- OnceRecord returns the record that once.sql ran into, or no row. The last column tells whether
-- commits wait for a standby, as in read.sql.
select state, fingerprint_version, fingerprint, current_setting('synchronous_standby_names') <> '' as synchronous
from /*schema*/idempotency
where key = @key
