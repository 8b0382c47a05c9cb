-- Settle ends the owner's run. It returns one row, whose value means nothing, if it ended the run.
-- It returns no row if the caller does not own the record: then settled.sql asks whether the caller
-- ended the run before. The lease of an unknown record ends, so that it can be looked into at once.
-- The lease of a run that counts as dead ends too, and its record stays in progress. expires_at
-- stays: it has an index, and the update would not be HOT. Settle sends a notification only if
-- somebody waits for the run (expect.sql). A notification takes a lock until this commit is on the
-- disk, and every other commit with a notification waits for the lock.
update /*schema*/idempotency
set state = @state, status = @status, envelope = @envelope,
  replay_until = statement_timestamp() + @replay_for::interval,
  answer_until = statement_timestamp() + @keep_answer::interval,
  maybe_ran = maybe_ran or @maybe_ran,
  lease_until = least(lease_until, statement_timestamp() + @lease_left::interval)
from (select set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) as settings) s -- plain
where s.settings is not null and -- plain
--distributed where
  key = @key and token = @token and fence = @fence and state = 1
returning case when waiters then pg_notify('fanonce_' || tableoid, key::text) end -- plain
--distributed returning true
