-- OnceRecord returns what once.sql found in its way, or no row.
select state, fingerprint_version, fingerprint
from /*schema*/idempotency
where key = @key
