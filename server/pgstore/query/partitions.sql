-- Partitions returns the partitions of the answers with their bounds, in the words of
-- the catalog; also one that somebody began to detach, and says so. They can be in other
-- schemas than the answers.
select c.oid, n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid), i.inhdetachpending
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
join pg_namespace n on n.oid = c.relnamespace
where i.inhparent = '/*schema*/idempotency_answer'::regclass
order by c.relname
