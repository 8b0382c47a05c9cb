-- Send stores a signal and wakes its saga. It returns no row if the saga has a signal of that name, or takes none any
-- more. A transaction that stores one of that name is waited for. The signal is stored before the saga's row is locked.
-- So a saga that is given up at the same time is due at once: its owner's write comes before this one, which then finds
-- the saga asleep, or behind it, and leaves wake_at as it is (append.sql). A saga that the statement does not see is woken
-- by hear.sql. A verb stores nothing without the saga, and has a line in the audit log.
with sent as (
  insert into /*schema*/saga_signal (saga, name, value, woken, check_at)
  select @id, @name, @value, s.id is not null, statement_timestamp() + @retention::interval
  from (select set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) as settings) c
  left join /*schema*/saga s on s.id = @id
  where c.settings is not null and (s.id is null and @verb = '' or s.status in (1, 5) and s.failed_at is null)
  on conflict (saga, name) do nothing
  returning saga
), woken as (
  update /*schema*/saga i
  set wake_at = case
      when i.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff' then i.wake_at -- deferred
      when i.engine = '00000000-0000-0000-0000-000000000000' and i.wake_at <= n.now then i.wake_at
      else n.now end
  from sent
  cross join (select statement_timestamp() as now) n
  where i.id = sent.saga and i.status = 1
), logged as (
  insert into /*schema*/saga_audit (saga, verb, step, actor, reason, from_status, to_status, fence)
  select s.id, @verb, @name, @actor, @reason, s.status, s.status, s.fence
  from sent
  join /*schema*/saga s on s.id = sent.saga
  where @verb <> ''
)
select saga from sent
