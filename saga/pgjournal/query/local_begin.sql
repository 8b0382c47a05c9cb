-- LocalBegin stands for the call of a local step, in the transaction of the step's rows. It returns no
-- row count if the call has a row already, or if the saga is gone. Another transaction with the same
-- call is waited for: it commits this call, or rolls it back.
insert into /*schema*/saga_local (saga, key)
select s.id, @key
from /*schema*/saga s
where s.id = @saga
on conflict (saga, key) do nothing
