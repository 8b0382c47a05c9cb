-- LocalBar keeps a local step from ever running, with the reason. It changes nothing if the call has a
-- row already, or if the saga is gone.
insert into /*schema*/saga_local (saga, key, refusal)
select s.id, @key, @refusal
from /*schema*/saga s
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null and -- plain
--distributed where
  s.id = @saga
on conflict (saga, key) do nothing
