-- Forget deletes a record unless a live owner runs, and writes down who asked for the deletion. It
-- returns the record as it was, or no row if it has moved on.
with forgotten as (
  delete from /*schema*/idempotency
  using (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s -- plain
  where s.lock_timeout is not null and -- plain
--distributed where
    key = @key and fence = @from
    and (state <> 1 or lease_until <= statement_timestamp())
  returning idempotency.*
), unkept as (
  delete from /*schema*/idempotency_answer a
  using forgotten f
  where a.kept_until = f.answer_kept_until and a.key = f.key
--distributed and a.key = @key
  returning a.envelope
), logged as (
  insert into /*schema*/idempotency_audit (key, verb, actor, reason, from_state, to_state, fence)
  select key, @verb, @actor, @reason, state, 0, fence from forgotten
)
select statement_timestamp() as now, /*listed*/, coalesce(envelope, (select envelope from unkept)) as envelope
from forgotten
