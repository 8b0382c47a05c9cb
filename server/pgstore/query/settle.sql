-- Settle ends the owner's run. It returns one row if it did, with nothing in it that
-- counts, and none if the caller does not own the record: then settled.sql asks
-- whether it did before.
-- An unknown record is free to be looked into at once: its lease ends. So does the
-- lease of a run that counts as dead, whose record stays in progress.
-- expires_at stays: it has an index, and the update would not be HOT.
-- Only if somebody waits for it (expect.sql) is there a notification: it takes a lock
-- that every other commit with one waits for, until this one is on the disk.
update /*schema*/idempotency
set state = @state, status = @status, envelope = @envelope,
  replay_until = case @state::smallint when 2 then statement_timestamp() + @replay_for::interval end,
  answer_until = statement_timestamp() + @keep_answer::interval,
  maybe_ran = maybe_ran or @maybe_ran,
  lease_until = case when @state::smallint in (1, 4) then statement_timestamp() else lease_until end
from (select set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) as settings) s
where s.settings is not null
  and key = @key and token = @token and fence = @fence and state = 1
returning case when waiters then pg_notify('fanonce_' || tableoid, key::text) end
