-- EndWait ends the wait of the owner's saga for a signal. It changes nothing if the saga has a signal of that name, or
-- another owner. A transaction that stores a signal of that name is waited for.
insert into /*schema*/saga_signal (saga, name, woken, check_at)
select s.id, @name, true, statement_timestamp() + @retention::interval
from /*schema*/saga s
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null and -- plain
--distributed where
  s.id = @id and s.engine = @engine and s.fence = @fence and s.status = 1
on conflict (saga, name) do nothing
