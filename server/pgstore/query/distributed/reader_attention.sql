-- ReaderAttention returns a page of the keys that need a person, the oldest first. It reads the notes
-- of such keys, and the record of each note, which is on the same node.
select i.key, null::uuid as token, i.fence, i.state, i.effect, i.recovery_attempts, i.maybe_ran, 0::smallint as fingerprint_version, null::bytea as fingerprint, i.parent,
  i.created_at, i.first_sent, i.lease_until, i.expires_at, i.replay_until, i.answer_until, i.status, null::bytea as envelope, i.route, null::bytea as memo, statement_timestamp() as now
from /*schema*/idempotency_attention a
join /*schema*/idempotency i on i.key = a.key and i.fence = a.fence and i.state = a.state
where a.state = any (@states::smallint[])
  and (@effect::smallint = 0 or i.effect = @effect::smallint)
  and (@route::text = '' or i.route = @route::text)
  and isfinite(a.created_at) and (a.created_at, a.key) > (@after_created_at::timestamptz, @after_key::uuid)
order by a.created_at, a.key
limit @limit
