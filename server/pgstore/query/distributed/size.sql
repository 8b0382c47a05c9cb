-- Size returns one row: the bytes of the table on all nodes, with its indexes and long values.
select citus_total_relation_size('/*schema*/idempotency'::regclass)
