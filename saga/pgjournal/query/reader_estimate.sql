-- ReaderEstimate returns one row: the number of sagas by the last vacuum or ANALYZE, which is negative
-- if there was none, the bytes of the tables, and how long the first saga to sweep has waited.
select (select reltuples::bigint from pg_class where oid = '/*schema*/saga'::regclass),
  pg_total_relation_size('/*schema*/saga'::regclass) + pg_total_relation_size('/*schema*/saga_result'::regclass),
  (select max(first.waited)
   from unnest('{3,4,6}'::smallint[]) as f (status)
   cross join lateral (
     select statement_timestamp() - s.expires_at as waited
     from /*schema*/saga s
     where s.status = f.status and s.expires_at <= statement_timestamp() and s.expires_at > '-infinity'
     order by s.expires_at
     limit 1) first)
