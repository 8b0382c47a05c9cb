-- ReaderSize returns one row: -1, and the bytes of the table of records on all nodes. The coordinator
-- keeps no statistics of the records of other nodes.
select -1::bigint, citus_total_relation_size('/*schema*/idempotency'::regclass)
