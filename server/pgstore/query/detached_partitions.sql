-- DetachedPartitions returns the tables that were partitions, by their names: whoever
-- detached them did not come to drop them. One that is being made is attached when
-- others can see it.
select c.relname
from pg_class c
join pg_class parent on parent.oid = '/*schema*/idempotency_answer'::regclass
where c.relnamespace = parent.relnamespace and c.relkind = 'r' and not c.relispartition
  and c.relname ~ '^idempotency_answer_p[0-9]{8}(_[0-9]{6})?$'
