-- ReaderAudit returns a page of the audit log of all sagas, the youngest lines first.
select id, at, saga, verb, step, actor, reason, from_status, to_status, fence
from /*schema*/saga_audit
where id < @before and (@actor::text = '' or actor = @actor)
order by id desc
limit @limit
