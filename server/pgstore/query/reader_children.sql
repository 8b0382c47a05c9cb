-- ReaderChildren returns a page of the records that were claimed on behalf of one record, in some
-- states, the oldest first. It reads the records of the index of children. "offset 0" keeps the planner
-- from another index, which has the order of the page: it would read all older records for the page.
select key, null::uuid as token, fence, state, effect, recovery_attempts, maybe_ran, 0::smallint as fingerprint_version, null::bytea as fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, null::bytea as envelope, route, null::bytea as memo, statement_timestamp() as now
from (
  select key, fence, state, effect, recovery_attempts, maybe_ran, parent,
    created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, route
  from /*schema*/idempotency
  where parent = @parent
    and (@effect::smallint = 0 or effect = @effect::smallint)
    and state = any (@states::smallint[])
    and (@route::text = '' or route = @route::text)
    and isfinite(created_at) and (created_at, key) > (@after_created_at::timestamptz, @after_key::uuid)
  offset 0
) children
order by created_at, key
limit @limit
