-- StartTx is start.sql in a transaction of the user's, whose settings it leaves
-- alone. The row count is 1 if it stored the saga, and 0 if there is one.
insert into /*schema*/saga (id, engine, plan, input_hash, name, version, scope, key, input, fence, revision, status,
  clean, wake_at, created_at)
select @id, '00000000-0000-0000-0000-000000000000', @plan, @input_hash, @name, @version, @scope, @key, @input, 0, 1, 1,
  true, s.now, s.now
from (select clock_timestamp() as now) s
on conflict (id) do nothing
