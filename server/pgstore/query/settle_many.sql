-- SettleMany is settle.sql for several owners, after flush.sql. It returns the number
-- of each that it did something for, counted from 1: of two that name the same
-- owner, one. The second column means nothing. A case in place of state = 1 keeps the
-- planner from beginning with the records in progress, which it takes for few.
update /*schema*/idempotency i
set state = o.state, status = o.status, envelope = o.envelope,
  replay_until = case o.state when 2 then clock_timestamp() + o.replay_for end,
  answer_until = clock_timestamp() + o.keep_answer,
  maybe_ran = i.maybe_ran or o.maybe_ran,
  lease_until = case o.state when 4 then clock_timestamp() else i.lease_until end
from unnest(@keys::uuid[], @tokens::uuid[], @fences::bigint[], @states::smallint[], @statuses::integer[], @envelopes::bytea[],
    @replay_fors::interval[], @keep_answers::interval[], @maybe_rans::boolean[])
  with ordinality
  as o (key, token, fence, state, status, envelope, replay_for, keep_answer, maybe_ran, n)
where i.key = o.key and i.token = o.token and i.fence = o.fence and case i.state when 1 then true end
returning o.n, case when i.waiters then pg_notify('fanonce_' || i.tableoid, i.key::text) end as notified
