-- Size returns one row: the bytes of the table with its indexes and long values.
select pg_total_relation_size('/*schema*/idempotency'::regclass)
