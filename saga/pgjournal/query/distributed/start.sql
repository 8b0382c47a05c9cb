-- Start is start.sql for one saga of a distributed table. With "values" it is a single statement on
-- one node; with "select" the coordinator would collect the row first.
insert into /*schema*/saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status,
  clean, wake_at, created_at, first_claimed_at)
values (@id, @engine, @plan, @input_hash, @name, @version, @scope, @key, @input, @fence, 1, 1,
  @fence::bigint < 1, case when @fence::bigint < 1 then greatest(statement_timestamp(), @start_at) end,
  statement_timestamp(), case when @fence::bigint > 0 then statement_timestamp() end)
on conflict (id) do nothing
returning id, engine, created_at
