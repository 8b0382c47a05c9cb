-- TakeOver makes the caller the next owner of a record that is released, or in progress past its
-- lease. It returns the record if it won, and no row if the record has moved on, is gone, or was
-- first sent too long ago. Only a dead owner counts as a death; only a transactional one left no
-- effect. A released record whose runs all left no effect takes the fingerprint of the request.
-- It clears the waiters' note, because they waited for the run before.
--distributed with moved as (
update /*schema*/idempotency
set token = @token, fence = fence + 1, state = 1, effect = @effect,
  recovery_attempts = recovery_attempts + case when state = 1 then 1 else 0 end,
  maybe_ran = maybe_ran or (state = 1 and effect <> 1),
  fingerprint_version = case when state = 3 and not maybe_ran then @fingerprint_version else fingerprint_version end,
  fingerprint = case when state = 3 and not maybe_ran then @fingerprint else fingerprint end,
  lease_until = statement_timestamp() + @lease::interval, route = @route, memo = @memo, waiters = false
from (select set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) as settings) s -- plain
where s.settings is not null and -- plain
--distributed where
  key = @key and fence = @from
  and (state = 3 or (state = 1 and lease_until <= statement_timestamp()))
  and (first_sent is null or first_sent >= statement_timestamp() - @window::interval)
returning -- plain
--distributed returning *) select
  statement_timestamp() as now, /*record*/
--distributed from moved
