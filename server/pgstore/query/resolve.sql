-- Resolve moves an unknown, quarantined or dead record on, as a person decided, and writes down the
-- person. It returns the record if it did, and no row if the record has moved on.
with old as (
  select i.key, i.state
  from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
  cross join -- plain
--distributed from
    /*schema*/idempotency i
  where s.lock_timeout is not null and -- plain
--distributed where
    i.key = @key and i.fence = @from
    and (i.state in (4, 5) or (i.state = 1 and i.lease_until <= statement_timestamp()))
  for update of i
), resolved as (
  update /*schema*/idempotency i
  set token = @token, fence = fence + 1, state = @to, recovery_attempts = @recovery_attempts, maybe_ran = @maybe_ran,
    status = @status, envelope = @envelope,
    replay_until = statement_timestamp() + @replay_for::interval,
    answer_until = statement_timestamp() + @keep_answer::interval,
    expires_at = greatest(expires_at, statement_timestamp() + @keep::interval)
  from old
  where i.key = old.key
--distributed and i.key = @key
  returning i.*, old.state as was
), logged as (
  insert into /*schema*/idempotency_audit (key, verb, actor, reason, from_state, to_state, fence)
  select key, @verb, @actor, @reason, was, state, fence from resolved
)
select statement_timestamp() as now, /*record*/
from resolved
