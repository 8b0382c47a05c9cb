-- ReaderAttention returns a page of the keys that need a person, the oldest first. It reads the notes
-- of such keys, and the record of each note. The limit makes the planner look up each record by its
-- key.
select i.key, null::uuid as token, i.fence, i.state, i.effect, i.recovery_attempts, i.maybe_ran, 0::smallint as fingerprint_version, null::bytea as fingerprint, i.parent,
  i.created_at, i.first_sent, i.lease_until, i.expires_at, i.replay_until, i.answer_until, i.status, null::bytea as envelope, i.route, null::bytea as memo, statement_timestamp() as now
from /*schema*/idempotency_attention a
cross join lateral (
  select key, fence, state, effect, recovery_attempts, maybe_ran, parent,
    created_at, first_sent, lease_until, expires_at, replay_until, answer_until, status, route
  from /*schema*/idempotency
  where key = a.key and fence = a.fence and state = a.state
    and (@effect::smallint = 0 or effect = @effect::smallint)
    and (@route::text = '' or route = @route::text)
  limit 1
) i
where a.state = any (@states::smallint[])
  and isfinite(a.created_at) and (a.created_at, a.key) > (@after_created_at::timestamptz, @after_key::uuid)
order by a.created_at, a.key
limit @limit
