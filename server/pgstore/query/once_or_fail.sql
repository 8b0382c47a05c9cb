-- OnceOrFail is once.sql for a pipeline: what is sent behind it must not happen if
-- the key was used before. So it returns one row, or fails with 22P02: the server
-- then passes over the rest. What cannot be read as a number is what a reader of
-- the server's log will see.
with first as (
  insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint,
    created_at, lease_until, expires_at, replay_until, status)
  select @key, @token, 1, 2, 1, @fingerprint_version, @fingerprint,
    s.now, s.now, s.now + @keep::interval, s.now + @keep::interval, 200
  from (select clock_timestamp() as now) s
  on conflict (key) do nothing
  returning key
)
select case count(*) when 1 then 1 else ('fanonce: not the first, rolled back; keys written: ' || count(*))::integer end
from first
