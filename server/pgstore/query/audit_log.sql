-- AuditLog returns the youngest entries, of one key or of all.
select id, at, key, verb, actor, reason, from_state, to_state, fence
from /*schema*/idempotency_audit
where @key::uuid is null or key = @key::uuid
order by id desc
limit @limit
