-- Partitions returns the partitions of the answers with their bounds, in the words of
-- the catalog; also one that somebody began to detach, and says so. They can be in other
-- schemas than the answers.
-- The last column tells whether ANALYZE would copy answers of it to the statistics.
-- Of one that was dropped since the statement began the bounds are null: pg_get_expr
-- looks at the catalog as it is now. They are asked for once, as they may go meanwhile.
with there as materialized (
  select c.oid, n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid) as bounds, i.inhdetachpending,
    (select coalesce(a.attstattarget, -1) <> 0 from pg_attribute a where a.attrelid = c.oid and a.attname = 'envelope') as analyzed
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  join pg_namespace n on n.oid = c.relnamespace
  where i.inhparent = '/*schema*/idempotency_answer'::regclass
)
select * from there where bounds is not null order by relname
