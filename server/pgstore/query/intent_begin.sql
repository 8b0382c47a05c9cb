-- Begin stores an intent, and returns when. No row: it is there already, and
-- intent.sql reads it, in a statement of its own that sees what this one ran into.
-- A transaction that is about to store it is waited for, for as long as @lock_timeout; null: as
-- long as the transaction that this is in waits for anything.
insert into /*schema*/idempotency_intent (key, namespace, parts)
select @key, @namespace, @parts
from (
  select set_config('lock_timeout', o.lock_timeout, true) as lock_timeout
  from (select coalesce(@lock_timeout, current_setting('lock_timeout')) as lock_timeout) o
) s
where s.lock_timeout is not null
on conflict (key) do nothing
returning began_at
