-- Append writes what an owner's work came to. It returns one row if it did, and
-- none if the caller does not own the saga, the write is there already, or the
-- entries have to be compacted first: read.sql tells which.
-- Entries are appended to those that there are, and whoever reads them takes the last
-- of each call: so nobody has to read them to write.
update /*schema*/saga i
set revision = @revision,
  entries = i.entries || @entries,
  deaths = case octet_length(@entries::bytea) when 0 then i.deaths else 0 end,
  status = coalesce(@status::smallint, i.status),
  turned_at = case @status::smallint when 2 then coalesce(i.turned_at, statement_timestamp()) else i.turned_at end,
  finished_at = case when @status::smallint > 2 then statement_timestamp() end,
  expires_at = case when @status::smallint in (3, 4, 6) then statement_timestamp() + @keep::interval end,
  deadline_at = coalesce(@deadline_at, i.deadline_at),
  engine = case when @wake_at::timestamptz is null then i.engine else '00000000-0000-0000-0000-000000000000' end,
  clean = @wake_at::timestamptz is not null, wake_at = @wake_at::timestamptz,
  cause = coalesce(@cause, i.cause), stuck_on = coalesce(@stuck_on, i.stuck_on), result = coalesce(@result, i.result)
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null
  and i.id = @id and i.fence = @fence and i.engine = @engine and i.revision = @revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(@entries::bytea) <= i.entry_room
returning true
