-- Park leaves a saga to another build, under the engine of all parked sagas, so that claims
-- which want none of these do not read them. It returns one row if it did, and none if the
-- caller does not own the saga, or the write is there already: read.sql tells which.
update /*schema*/saga
set revision = @revision, engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff', clean = false, stuck_on = @park
where set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) is not null
  and id = @id and fence = @fence and engine = @engine and revision = @revision - 1 and status in (1, 2)
returning true
