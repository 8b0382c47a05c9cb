-- ConfirmSent is sent.sql that writes the row as it is: the caller relies on a commit that a standby may not have yet.
update /*schema*/saga_signal
set woken = woken
where saga = @id and name = @name
  and set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null -- plain
returning value
