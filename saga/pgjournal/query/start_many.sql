-- StartMany is start.sql for several sagas, after flush.sql. It returns a row for
-- each that it stored; of two with one ID the first. They come in the order of their
-- IDs, as everybody inserts who inserts several: two of these wait for each other in
-- turn, and not in a circle.
insert into /*schema*/saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status,
  created_at, deadline_at)
select r.id, r.engine, r.plan, r.input_hash, r.name, r.version, r.scope, r.key, r.input, r.fence, 1, 1,
  statement_timestamp(), statement_timestamp() + r.timeout
from unnest(@ids::uuid[], @engines::uuid[], @plans::bytea[], @input_hashes::bytea[], @names::text[], @versions::integer[],
    @scopes::text[], @keys::text[], @inputs::bytea[], @fences::bigint[], @timeouts::interval[])
  as r (id, engine, plan, input_hash, name, version, scope, key, input, fence, timeout)
on conflict (id) do nothing
returning id, engine, created_at, deadline_at
