-- Forgets every key: what was done under them can be done again.
drop table idempotency;
drop table idempotency_audit;
drop table idempotency_version;
