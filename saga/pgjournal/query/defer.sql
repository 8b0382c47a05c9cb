-- Defer leaves a saga to another build, under the engine of all deferred sagas. So a claim that
-- wants no deferred sagas does not read them. Defer returns one row if it did. It returns no row if
-- the caller does not own the saga, or if the write is there already. Then read.sql tells the
-- reason.
update /*schema*/saga
set revision = @revision + wakes, engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff', clean = false, wake_at = null, stuck_on = @deferred
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null and -- plain
--distributed where
  id = @id and fence = @fence and engine = @engine and revision - wakes = @revision - 1 and status in (1, 2)
returning true
