-- NoteDetached writes down that maintenance is about to detach a partition.
insert into /*schema*/idempotency_detached (table_oid, schema_name, table_name)
select c.oid, n.nspname, c.relname
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid = @oid
on conflict (table_oid) do update
set schema_name = excluded.schema_name, table_name = excluded.table_name, detached_at = excluded.detached_at
