-- DetachedPartitions returns those of our tables, which we detached, that are there and
-- no partitions; and the tables that may have been partitions, by the beginning of their
-- names and their columns: whoever detached them did not come to drop them.
-- A partition has the parent's columns and no others, with not null where that has it: a
-- copy made by create table as, or an archive with a column of its own, never was one.
select c.oid, n.nspname, c.relname
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_class parent on parent.oid = '/*schema*/idempotency_answer'::regclass
where not c.relispartition and (c.oid = any (@ours::oid[])
  or c.relnamespace = parent.relnamespace and c.relkind = 'r' and starts_with(c.relname, 'idempotency_answer_p')
  and (
    select array_agg((attname, atttypid, atttypmod, attnotnull) order by attname)
    from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped
  ) = (
    select array_agg((attname, atttypid, atttypmod, attnotnull) order by attname)
    from pg_attribute where attrelid = parent.oid and attnum > 0 and not attisdropped))
