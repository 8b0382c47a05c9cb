-- Hear wakes a saga for its signals that have not, as send.sql does. If it does not see the saga, that is started later
-- than the signals were committed, and reads them.
with heard as (
  update /*schema*/saga_signal
  set woken = true
  where saga = @id and not woken
    and set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null -- plain
  returning saga
)
update /*schema*/saga i
set wake_at = case
    when i.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then i.wake_at -- deferred
    when i.engine = '00000000-0000-0000-0000-000000000000' and i.wake_at <= n.now then i.wake_at
    else n.now end
from (select distinct saga from heard) h
cross join (select statement_timestamp() as now) n
where i.id = h.saga and i.id = @id and i.status = 1
