-- Cancel makes the record that lock.sql locked a tombstone. It returns one row. Only a dead owner
-- counts as a death; only a transactional one left no effect. The tombstone stays as long as a new
-- one. If it were swept at the time of the old record, it would let a late forward call run after
-- its undo. Cancels are few, so it may cost the HOT update.
update /*schema*/idempotency
set token = @token, fence = fence + 1, state = 6,
  recovery_attempts = recovery_attempts + case when state = 1 then 1 else 0 end,
  maybe_ran = maybe_ran or (state = 1 and effect <> 1),
  expires_at = greatest(expires_at, replay_until, statement_timestamp() + @keep::interval)
where key = @key
returning true
