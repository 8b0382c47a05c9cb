-- ReaderSize returns one row: the number of records, and the bytes of the tables of records and
-- answers. The number is that of the last ANALYZE or vacuum, and negative if nobody ran one.
select (select reltuples::bigint from pg_class where oid = '/*schema*/idempotency'::regclass),
  pg_total_relation_size('/*schema*/idempotency'::regclass)
    + (select coalesce(sum(pg_total_relation_size(relid)), 0)::bigint from pg_partition_tree('/*schema*/idempotency_answer'::regclass))
