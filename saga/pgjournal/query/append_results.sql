-- AppendResults follows append.sql in its transaction, and writes the results of the entries that
-- go into the side table. If append.sql did nothing, the owner or the revision differs, or the
-- results are there already: then this statement does nothing either. The row count is the
-- number of results.
insert into /*schema*/saga_result (saga, revision, position, result)
select s.id, @revision, r.n, r.result
from /*schema*/saga s
cross join unnest(@large::bytea[]) with ordinality as r (result, n)
where s.id = @id and s.fence = @fence and s.revision - s.wakes = @revision
on conflict (saga, revision, position) do nothing
