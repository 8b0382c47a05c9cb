-- SettleTxPartitioned is settle_tx.sql with the answer in its time partition.
with settled as (
  update /*schema*/idempotency
  set state = @state, status = @status,
    replay_until = statement_timestamp() + @replay_for::interval,
    answer_until = statement_timestamp() + @keep_answer::interval,
    answer_kept_until = greatest(statement_timestamp() + coalesce(@keep_answer::interval, @replay_for::interval),
      case when @keep_answer::interval is null then expires_at end),
    maybe_ran = maybe_ran or @maybe_ran,
    lease_until = least(lease_until, statement_timestamp() + @lease_left::interval)
  where key = @key and token = @token and fence = @fence and state = 1
    and set_config('lock_timeout', @lock_timeout, true) is not null -- plain
    and set_config('client_min_messages', 'warning', true) is not null -- plain
  returning key, answer_kept_until, case when waiters then pg_notify('fanonce_' || tableoid, key::text) end -- plain
--distributed returning key, answer_kept_until
), kept as (
  insert into /*schema*/idempotency_answer (kept_until, key, envelope)
  select answer_kept_until, key, @envelope from settled
)
select case when count(*) = 1 then 1 else ('fanonce: lease lost, rolled back; owners found: ' || count(*))::integer end
  , /*restored*/ -- plain
from settled
