-- Start stores a new saga. It returns one row if it did. It returns no row if a saga with that ID
-- is stored: then read.sql shows that saga. "do nothing" instead of "do update": a duplicate must
-- write no WAL and lock no row. The lock timeout bounds the wait for a user's transaction that is
-- about to store the same saga. It is set here because this needs neither a session nor a round
-- trip.
insert into /*schema*/saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status,
  clean, wake_at, created_at, first_claimed_at)
select @id, @engine, @plan, @input_hash, @name, @version, @scope, @key, @input, @fence, 1, 1,
  @fence::bigint = 0, case @fence::bigint when 0 then statement_timestamp() end,
  statement_timestamp(), case when @fence::bigint > 0 then statement_timestamp() end
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null
on conflict (id) do nothing
returning created_at
