-- AuditLog returns the youngest entries, of one saga or of all.
select id, at, saga, verb, step, actor, reason, from_status, to_status, fence
from /*schema*/saga_audit
where @saga::uuid is null or saga = @saga::uuid
order by id desc
limit @limit
