-- Finish is append.sql for a saga that completes, which is what most do: it needs less
-- than half of that statement.
update /*schema*/saga i
set revision = @revision,
  entries = i.entries || @entries,
  deaths = case octet_length(@entries::bytea) when 0 then i.deaths else 0 end,
  status = 3, finished_at = statement_timestamp(), expires_at = statement_timestamp() + @keep::interval,
  result = coalesce(@result, i.result)
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null
  and i.id = @id and i.fence = @fence and i.engine = @engine and i.revision = @revision - 1 and i.status in (1, 2)
  and octet_length(i.entries) + octet_length(@entries::bytea) <= i.entry_room
returning true
