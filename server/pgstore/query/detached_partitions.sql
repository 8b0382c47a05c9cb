-- DetachedPartitions returns the tables that maintenance noted before it detached them, and
-- whether the note is stale. A note is stale if the table is gone, has another name or schema,
-- or is a partition. A table that is about to leave its parent is not returned.
select d.table_oid, d.schema_name, d.table_name, c.oid is null or c.relispartition as stale
from /*schema*/idempotency_detached d
left join (pg_class c join pg_namespace n on n.oid = c.relnamespace)
  on c.oid = d.table_oid and c.relname = d.table_name and n.nspname = d.schema_name and c.relkind = 'r'
left join pg_inherits i on i.inhrelid = c.oid
where not coalesce(i.inhdetachpending, false)
