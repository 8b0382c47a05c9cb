-- DetachedPartitions returns those of our tables, which we detached, that are there and
-- no partitions; and the tables that were partitions, by their names and columns: whoever
-- detached them did not come to drop them. One that is being made is attached when others
-- can see it.
-- Names are ours and pg_partman's: version 5 writes p20261121 and p20261121_130000 as
-- we do, version 4 p2026_11_21, p2026_11_21_1300 and p2026_11_21_130000, and p2026_11,
-- p2026w47, p2026q4 and p2026 for longer intervals.
select c.oid, n.nspname, c.relname
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_class parent on parent.oid = '/*schema*/idempotency_answer'::regclass
where not c.relispartition and (c.oid = any (@ours::oid[])
  or c.relnamespace = parent.relnamespace and c.relkind = 'r'
  and c.relname ~ '^idempotency_answer_p[0-9]{4}([0-9]{4}(_[0-9]{6})?|_[0-9]{2}(_[0-9]{2}(_[0-9]{4}([0-9]{2})?)?)?|w[0-9]{2}|q[1-4])?$'
  and 2 = (
    select count(*) from pg_attribute a
    where a.attrelid = c.oid and not a.attisdropped
      and (a.attname, a.atttypid) in (('key', 'uuid'::regtype), ('kept_until', 'timestamptz'::regtype))))
