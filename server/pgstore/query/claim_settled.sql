-- ClaimSettled is claim.sql and settle.sql in one, for a run whose statements come after it in the same pipeline. They
-- must not run if there is a record, or if the request is too old. So it returns one row, or fails: with 23505 where
-- there is a record, with 22P02 where the request is too old. The text that is not a number appears in the server's
-- log. The key comes with a bound on the wait for a transaction that is about to write the same key. The last column
-- means nothing: it gives the statements of the run the lock_timeout back that they had before. It is evaluated behind
-- the insert. For distributed tables bound_locks.sql and unbound_locks.sql stand around this statement.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, envelope, route)
values (
  case when set_config('fanonce.lock_timeout', current_setting('lock_timeout'), true) is not null then -- plain
    case when set_config('lock_timeout', @lock_timeout, true) is not null then @key::uuid end end, -- plain
--distributed   @key,
  @token,
  case when @first_sent::timestamptz is null or @first_sent >= statement_timestamp() - @window::interval then 1
    else ('fanonce: first sent before the window, nothing done at ' || statement_timestamp())::integer end,
  @state, @effect, @fingerprint_version, @fingerprint, @parent,
  statement_timestamp(), @first_sent, statement_timestamp() + @lease::interval, statement_timestamp() + @keep::interval,
  case when @state::smallint = 2 then statement_timestamp() + @replay_for::interval end,
  statement_timestamp() + @keep_answer::interval, @status, @envelope, @route)
returning created_at, lease_until, expires_at,
  set_config('lock_timeout', current_setting('fanonce.lock_timeout'), true) as settings -- plain
--distributed   null::text as settings
