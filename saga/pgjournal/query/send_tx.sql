-- SendTx stores a signal in a user's transaction, behind takes.sql. The transaction may stay open, so it does not lock the
-- saga's row: hear.sql wakes the saga once the signal is committed.
insert into /*schema*/saga_signal (saga, name, value, woken, check_at)
values (@id, @name, @value, false, statement_timestamp() + @retention::interval)
on conflict (saga, name) do nothing
