-- Outline has the columns of a record that the observer may read.
key, fence, state, effect, recovery_attempts, maybe_ran, parent, created_at, first_sent, lease_until,
expires_at, replay_until, answer_until, status, route
