-- SettleMany is settle.sql for several owners, after flush.sql. It returns the number of each
-- settlement that changed a record, counted from 1. If two settlements name the same owner, it
-- returns one of them. The second column means nothing. A "case" instead of "state = 1" keeps the
-- planner from beginning with the records in progress, which it takes for few. The arrays are as in
-- claim_many.sql. The numbers are an array too, because the planner would expect a thousand rows of
-- a function that counts.
update /*schema*/idempotency i
set state = o.state, status = o.status, envelope = o.envelope,
  replay_until = statement_timestamp() + o.replay_for,
  answer_until = statement_timestamp() + o.keep_answer,
  maybe_ran = i.maybe_ran or o.maybe_ran,
  lease_until = least(i.lease_until, statement_timestamp() + o.lease_left)
from (select unnest(@keys::uuid[]) as key, unnest(@tokens::uuid[]) as token, unnest(@fences::bigint[]) as fence,
    unnest(@states::smallint[]) as state, unnest(@statuses::integer[]) as status, unnest(@envelopes::bytea[]) as envelope,
    unnest(@replay_fors::interval[]) as replay_for, unnest(@keep_answers::interval[]) as keep_answer,
    unnest(@maybe_rans::boolean[]) as maybe_ran, unnest(@lease_lefts::interval[]) as lease_left, unnest(@numbers::integer[]) as n) o
where i.key = o.key and i.token = o.token and i.fence = o.fence and case when i.state = 1 then true end
--distributed and i.key = any (@keys)
returning o.n, case when i.waiters then pg_notify('fanonce_' || i.tableoid, i.key::text) end as notified -- plain
--distributed returning o.n, null::text as notified
