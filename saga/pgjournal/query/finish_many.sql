-- FinishMany is finish.sql for several owners, after flush.sql, as append_many.sql is
-- append.sql.
update /*schema*/saga i
set revision = o.revision,
  entries = i.entries || o.entries,
  recovery_attempts = case octet_length(o.entries) when 0 then i.recovery_attempts else 0 end,
  status = 3, wake_at = null, finished_at = statement_timestamp(), expires_at = statement_timestamp() + o.keep,
  result = coalesce(o.result, i.result)
from (select unnest(@ids::uuid[]) as id, unnest(@engines::uuid[]) as engine, unnest(@fences::bigint[]) as fence,
    unnest(@revisions::bigint[]) as revision, unnest(@entries::bytea[]) as entries, unnest(@results::bytea[]) as result,
    unnest(@keeps::interval[]) as keep, unnest(@numbers::integer[]) as n) o
where i.id = o.id and i.fence = o.fence and i.engine = o.engine and i.revision = o.revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(o.entries) <= i.entry_room
returning o.n
