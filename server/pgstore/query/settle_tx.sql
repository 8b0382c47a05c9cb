-- SettleTx is settle.sql as the last statement of a transaction. It is sent together with COMMIT,
-- which must not happen if the caller lost its lease. So it returns one row, or fails with 22P02
-- where settle.sql returns none: the server then passes over the COMMIT. The text that is not a
-- number appears in the server's log. The text depends on the count, so that it is not evaluated
-- while planning. COMMIT warns where the wait for a standby was canceled, whatever the handler
-- chose to hear. The settings are made when the row was found, before it is locked. A subquery for them
-- would make the server set up a join at each call. as_pool.sql goes before it and ends with it, so
-- that what the handler deferred to COMMIT runs as the handler.
with settled as (
  update /*schema*/idempotency
  set state = @state, status = @status, envelope = @envelope,
    replay_until = statement_timestamp() + @replay_for::interval,
    answer_until = statement_timestamp() + @keep_answer::interval,
    maybe_ran = maybe_ran or @maybe_ran,
    lease_until = least(lease_until, statement_timestamp() + @lease_left::interval)
  where key = @key and token = @token and fence = @fence and state = 1
    and set_config('lock_timeout', @lock_timeout, true) is not null -- plain
    and set_config('client_min_messages', 'warning', true) is not null -- plain
  returning key, case when waiters then pg_notify('fanonce_' || tableoid, key::text) end -- plain
--distributed returning key
)
select case when count(*) = 1 then 1 else ('fanonce: lease lost, rolled back; owners found: ' || count(*))::integer end
  , /*restored*/ -- plain
from settled
