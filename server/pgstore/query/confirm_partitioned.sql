-- ConfirmPartitioned is confirm.sql for records whose answer may be in a time
-- partition: it was written by the same transaction.
select i.key, token, fence, state, effect, deaths, maybe_ran, fingerprint_version, fingerprint,
  created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status,
  coalesce(i.envelope, a.envelope) as envelope, route, memo, clock_timestamp() as now,
  true as synchronous
from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s
cross join /*schema*/idempotency i
left join /*schema*/idempotency_answer a on a.kept_until = i.answer_kept_until and a.key = i.key
where s.lock_timeout is not null and i.key = @key
for no key update of i
