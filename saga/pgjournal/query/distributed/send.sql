-- Send is send.sql for distributed tables. takes.sql has said before it that the saga takes a signal, or is not there. A
-- saga that was there is woken here (@woken), and another one by hear.sql.
with sent as (
  insert into /*schema*/saga_signal (saga, name, value, woken, check_at)
  values (@id, @name, @value, @woken, statement_timestamp() + @retention::interval)
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
  where i.id = sent.saga and i.id = @id and i.status = 1
  returning i.id
), logged as (
  insert into /*schema*/saga_audit (saga, verb, step, actor, reason, from_status, to_status, fence)
  select s.id, @verb, @name, @actor, @reason, s.status, s.status, s.fence
  from sent
  join /*schema*/saga s on s.id = sent.saga
  where s.id = @id and @verb <> ''
)
select saga from sent
