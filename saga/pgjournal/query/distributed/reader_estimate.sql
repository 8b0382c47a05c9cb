-- ReaderEstimate returns one row for a distributed table: an unknown number of sagas, the bytes of the
-- tables on all nodes, and how long the first saga to sweep has waited.
select -1::bigint, citus_total_relation_size('/*schema*/saga'::regclass) + citus_total_relation_size('/*schema*/saga_result'::regclass),
  (select statement_timestamp() - min(s.expires_at)
   from /*schema*/saga s
   where s.status in (3, 4, 6) and s.expires_at <= statement_timestamp() and s.expires_at > '-infinity')
