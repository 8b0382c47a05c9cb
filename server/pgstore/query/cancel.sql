-- Cancel makes the record that lock.sql locked a tombstone. It returns one row.
-- Only a dead owner counts as a death; only a transactional one left no effect.
update /*schema*/idempotency
set token = @token, fence = fence + 1, state = 6,
  deaths = deaths + case state when 1 then 1 else 0 end,
  maybe_ran = maybe_ran or (state = 1 and effect <> 1)
where key = @key
returning true
