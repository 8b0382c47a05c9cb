-- EndUnknown ends a run whose record became unknown without its owner's word. It returns one row if
-- it did, and no row if the caller does not own such a record. DropAttention follows in the same
-- transaction. The answer stays in its record.
update /*schema*/idempotency
set state = @state, status = @status, envelope = @envelope,
  replay_until = statement_timestamp() + @replay_for::interval,
  answer_until = statement_timestamp() + @keep_answer::interval,
  maybe_ran = maybe_ran or @maybe_ran,
  lease_until = least(lease_until, statement_timestamp() + @lease_left::interval)
from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
where s.lock_timeout is not null and -- plain
--distributed where
  key = @key and token = @token and fence = @fence and state = 4
returning true
