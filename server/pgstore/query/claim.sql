-- Claim makes the caller the first owner of a key. It returns one row if it won. It returns no row
-- if there is a record, which read.sql shows, or if the request is too old. It has "do nothing"
-- instead of "do update": a duplicate must write no WAL and lock no row. It has
-- statement_timestamp() instead of now(): now() stands still from BEGIN. A lease that begins before
-- a wait for a lock ends no earlier than its owner believes: the owner counts from before it sent
-- the request. The lock timeout bounds the wait for a transaction that is about to make the absent
-- key a tombstone. The timeout is set here, because that needs neither a session nor a round trip.
-- The commit of an asynchronous claim does not wait for the disk, nor for a standby: DESIGN.md says
-- which claims are, and why that is harmless.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, route, memo)
select @key, @token, 1, 1, @effect, @fingerprint_version, @fingerprint, @parent,
  s.now, @first_sent, s.now + @lease::interval, s.now + @keep::interval, @route, @memo
from (select statement_timestamp() as now, set_config('lock_timeout', @lock_timeout, true) || set_config('client_min_messages', 'warning', true) ||
    case when @asynchronous::boolean then set_config('synchronous_commit', 'off', true) else '' end as settings) s
where s.settings is not null
  and (@first_sent::timestamptz is null or @first_sent >= s.now - @window::interval)
on conflict (key) do nothing
returning created_at, lease_until, expires_at
