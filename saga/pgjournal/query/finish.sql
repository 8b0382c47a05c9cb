-- Finish is append.sql for a saga that completes. Most sagas complete, and this needs less than
-- half of that statement.
update /*schema*/saga i
set revision = @revision,
  entries = i.entries || @entries,
  recovery_attempts = case octet_length(@entries::bytea) when 0 then i.recovery_attempts else 0 end,
  status = 3, wake_at = null, finished_at = statement_timestamp(), expires_at = statement_timestamp() + @keep::interval,
  result = coalesce(@result, i.result)
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null
  and i.id = @id and i.fence = @fence and i.engine = @engine and i.revision = @revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(@entries::bytea) <= i.entry_room
returning true
