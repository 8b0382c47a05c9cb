-- ReaderAuditOf is reader_audit.sql for the entries of one key, which have an index. "offset 0" keeps
-- the planner from the primary key, which has the order of the page.
select id, at, key, verb, actor, reason, from_state, to_state, fence
from (
  select *
  from /*schema*/idempotency_audit
  where key = @key
    and id < @before
    and (@actor::text = '' or actor = @actor::text)
  offset 0
) entries
order by id desc
limit @limit
