-- Start stores a new saga. It returns one row if it did. It returns no row if a saga with that ID
-- is stored: then read.sql shows that saga. "do nothing" instead of "do update": a duplicate must
-- write no WAL and lock no row. The lock timeout bounds the wait for a user's transaction that is
-- about to store the same saga. It is set here because this needs neither a session nor a round
-- trip. start_many.sql is the form for several sagas, and start_tx.sql the one for a user's
-- transaction. Sagas come in the order of their IDs, in all statements that insert several. So two
-- such statements never wait for each other in a circle. If two have one ID, the statement stores
-- the first.
insert into /*schema*/saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status,
  clean, wake_at, created_at, first_claimed_at)
select r.id, r.engine, r.plan, r.input_hash, r.name, r.version, r.scope, r.key, r.input, r.fence, 1, 1,
  r.fence = 0, case r.fence when 0 then greatest(statement_timestamp(), r.start_at) end,
  statement_timestamp(), case when r.fence > 0 then statement_timestamp() end
from (
  select @id::uuid as id, @engine::uuid as engine, @plan::bytea as plan, @input_hash::bytea as input_hash,
    @name::text as name, @version::integer as version, @scope::text as scope, @key::text as key,
    @input::bytea as input, @fence::bigint as fence, @start_at::timestamptz as start_at
  where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null -- plain
) r
on conflict (id) do nothing
returning id, engine, created_at
