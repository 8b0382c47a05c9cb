-- StartMany is start.sql for several sagas, after flush.sql. It returns a row for each saga that
-- it stored. If two have one ID, it stores the first. The sagas come in the order of their IDs,
-- in all statements that insert several. So two such statements never wait for each other in a
-- circle.
insert into /*schema*/saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status,
  clean, wake_at, created_at, first_claimed_at)
select r.id, r.engine, r.plan, r.input_hash, r.name, r.version, r.scope, r.key, r.input, r.fence, 1, 1,
  r.fence = 0, case r.fence when 0 then statement_timestamp() end,
  statement_timestamp(), case when r.fence > 0 then statement_timestamp() end
from (select unnest(@ids::uuid[]) as id, unnest(@engines::uuid[]) as engine, unnest(@plans::bytea[]) as plan,
    unnest(@input_hashes::bytea[]) as input_hash, unnest(@names::text[]) as name, unnest(@versions::integer[]) as version,
    unnest(@scopes::text[]) as scope, unnest(@keys::text[]) as key, unnest(@inputs::bytea[]) as input, unnest(@fences::bigint[]) as fence) r
on conflict (id) do nothing
returning id, engine, created_at
