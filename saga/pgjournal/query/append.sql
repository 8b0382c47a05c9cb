-- Append writes the outcome of an owner's work. It returns one row if it did. It returns no row
-- if the caller does not own the saga, if the write is there already, or if the entries have to
-- be compacted first. Then read.sql tells the reason. A write appends its entries to the present
-- ones, and a reader takes the last entry of each call. So a write needs no read. A saga that has
-- an engine has a wake_at if wake.sql came meanwhile. This wake_at stays until the owner gives
-- the saga up. The saga is then due at that time, and not at a later time that the owner names.
update /*schema*/saga i
set revision = @revision,
  entries = i.entries || @entries,
  recovery_attempts = case octet_length(@entries::bytea) when 0 then i.recovery_attempts else 0 end,
  status = coalesce(@status::smallint, i.status),
  turned_at = case @status::smallint when 2 then coalesce(i.turned_at, statement_timestamp()) else i.turned_at end,
  finished_at = case when @status::smallint > 2 then statement_timestamp() end,
  expires_at = case when @status::smallint in (3, 4, 6) then statement_timestamp() + @keep::interval end,
  deadline_at = coalesce(@deadline_at, i.deadline_at),
  engine = case when @wake_at::timestamptz is null then i.engine else '00000000-0000-0000-0000-000000000000' end,
  clean = @wake_at::timestamptz is not null, wake_at = case when @status::smallint > 2 then null else least(@wake_at::timestamptz, i.wake_at) end,
  cause = coalesce(@cause, i.cause), stuck_on = coalesce(@stuck_on, i.stuck_on), result = coalesce(@result, i.result)
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null
  and i.id = @id and i.fence = @fence and i.engine = @engine and i.revision = @revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(@entries::bytea) <= i.entry_room
returning true
