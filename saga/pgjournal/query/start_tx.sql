-- StartTx is start.sql in a user's transaction, whose settings stay as they are.
insert into /*schema*/saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status,
  clean, wake_at, created_at, first_claimed_at)
select r.id, r.engine, r.plan, r.input_hash, r.name, r.version, r.scope, r.key, r.input, r.fence, 1, 1,
  r.fence = 0, case r.fence when 0 then greatest(statement_timestamp(), r.start_at) end,
  statement_timestamp(), case when r.fence > 0 then statement_timestamp() end
from (
  select @id::uuid as id, @engine::uuid as engine, @plan::bytea as plan, @input_hash::bytea as input_hash,
    @name::text as name, @version::integer as version, @scope::text as scope, @key::text as key,
    @input::bytea as input, @fence::bigint as fence, @start_at::timestamptz as start_at
) r
on conflict (id) do nothing
returning id, engine, created_at
