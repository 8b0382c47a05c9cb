-- ReaderAudit returns a page of the audit log, the youngest entries first. It reads the log by its
-- primary key until it has found enough.
select id, at, key, verb, actor, reason, from_state, to_state, fence
from /*schema*/idempotency_audit
where id < @before
  and (@actor::text = '' or actor = @actor::text)
order by id desc
limit @limit
