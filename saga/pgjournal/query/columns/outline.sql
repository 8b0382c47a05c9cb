-- Outline has the columns of a saga that the observer may read.
id, engine, plan, name, version, fence, revision, wakes, status, recovery_attempts, cancel, clean,
created_at, first_claimed_at, deadline_at, failed_at, resumed_at, wake_at, finished_at, expires_at
