-- Partitions returns the partitions of the answers with their bounds, in the catalog's syntax. It
-- also returns and marks a partition that somebody began to detach. Partitions can be in other
-- schemas than the answers. The last column tells whether ANALYZE would copy answers of it to the
-- statistics. The bounds are null for a partition that was dropped since the statement began:
-- pg_get_expr looks at the catalog as it is now. The bounds are asked for once, because they may go
-- meanwhile.
with there as materialized (
  select c.oid, n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid) as bounds, i.inhdetachpending,
    (select coalesce(a.attstattarget, -1) <> 0 from pg_attribute a where a.attrelid = c.oid and a.attname = 'envelope') as analyzed
  from pg_inherits i
  join pg_class c on c.oid = i.inhrelid
  join pg_namespace n on n.oid = c.relnamespace
  where i.inhparent = '/*schema*/idempotency_answer'::regclass
)
select * from there where bounds is not null order by relname
