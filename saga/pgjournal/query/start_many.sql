-- StartMany is start.sql for several sagas, after flush.sql. It takes arrays for values. The arrays
-- are unnested in a select list: in the from clause each array would have its own store of rows.
insert into /*schema*/saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status,
  clean, wake_at, created_at, first_claimed_at)
select r.id, r.engine, r.plan, r.input_hash, r.name, r.version, r.scope, r.key, r.input, r.fence, 1, 1,
  r.fence = 0, case r.fence when 0 then greatest(statement_timestamp(), r.start_at) end,
  statement_timestamp(), case when r.fence > 0 then statement_timestamp() end
from (
  select unnest(@id::uuid[]) as id, unnest(@engine::uuid[]) as engine, unnest(@plan::bytea[]) as plan, unnest(@input_hash::bytea[]) as input_hash,
    unnest(@name::text[]) as name, unnest(@version::integer[]) as version, unnest(@scope::text[]) as scope, unnest(@key::text[]) as key,
    unnest(@input::bytea[]) as input, unnest(@fence::bigint[]) as fence, unnest(@start_at::timestamptz[]) as start_at
) r
on conflict (id) do nothing
returning id, engine, created_at
