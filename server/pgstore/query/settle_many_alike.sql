-- SettleManyAlike is settle_many.sql for completions that are kept for the same time. Such a flush is
-- the rule.
update /*schema*/idempotency i
set state = 2, status = o.status, envelope = o.envelope,
  replay_until = statement_timestamp() + @replay_for::interval,
  answer_until = statement_timestamp() + @keep_answer::interval,
  maybe_ran = i.maybe_ran or @maybe_ran
from (select unnest(@keys::uuid[]) as key, unnest(@tokens::uuid[]) as token, unnest(@fences::bigint[]) as fence,
    unnest(@statuses::integer[]) as status, unnest(@envelopes::bytea[]) as envelope, unnest(@numbers::integer[]) as n) o
where i.key = o.key and i.token = o.token and i.fence = o.fence and case when i.state = 1 then true end
--distributed and i.key = any (@keys)
returning o.n, case when i.waiters then pg_notify('fanonce_' || i.tableoid, i.key::text) end as notified -- plain
--distributed returning o.n, null::text as notified
