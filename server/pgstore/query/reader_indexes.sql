-- ReaderIndexes returns one row: whether the index for Browse is there and valid, and whether that
-- for children is.
select coalesce(bool_or(first = 'created_at' and second = 'key' and predicate is null), false),
  coalesce(bool_or(first = 'parent' and (predicate is null or predicate = '(parent IS NOT NULL)')), false)
from (
  select (select attname from pg_attribute where attrelid = x.indrelid and attnum = x.indkey[0]) as first,
    (select attname from pg_attribute where attrelid = x.indrelid and attnum = x.indkey[1]) as second,
    pg_get_expr(x.indpred, x.indrelid) as predicate
  from pg_index x
  join pg_class c on c.oid = x.indexrelid
  join pg_am m on m.oid = c.relam
  where x.indrelid = '/*schema*/idempotency'::regclass and x.indisvalid and m.amname = 'btree'
) i
