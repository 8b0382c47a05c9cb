-- Begin stores an intent, and returns the time. No row means that the intent is there already. Then
-- intent.sql reads it: a statement of its own sees the intent that this one ran into. This
-- statement waits for a transaction that is about to store the same intent, for at most
-- @lock_timeout. Null means the lock timeout of the transaction around it.
insert into /*schema*/idempotency_intent (key, namespace, parts)
--distributed values (@key, @namespace, @parts)
select @key, @namespace, @parts -- plain
from ( -- plain
  select set_config('lock_timeout', o.lock_timeout, true) as lock_timeout -- plain
  from (select coalesce(@lock_timeout, current_setting('lock_timeout')) as lock_timeout) o -- plain
) s -- plain
where s.lock_timeout is not null -- plain
on conflict (key) do nothing
returning began_at
