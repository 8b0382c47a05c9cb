-- Sweep deletes at most so many records that are past their time and that nobody
-- can need, of those that expire at @after or later. It returns one row: how many it
-- deleted, and when the last of them expired (null: there was none). Live, unknown and
-- poisoned ones stay, and so does a dead opaque run: it is the only trace of effects
-- that may have happened.
-- statement_timestamp() is one instant for the whole statement, so that the index is
-- searched up to it and no further. Locked rows are left to the next sweep.
-- Its commit does not wait for the disk, nor for a standby: what a crash brings back
-- is swept again, and who claims a key that was swept makes both durable, as the
-- log is flushed in order.
with swept as (
  delete from /*schema*/idempotency i
  using (select set_config('synchronous_commit', 'off', true) as synchronous_commit) s
  where s.synchronous_commit is not null and i.ctid = any (array(
      select ctid
      from /*schema*/idempotency
      where expires_at >= @after
        and expires_at <= statement_timestamp()
        and (state in (3, 6)
          or (state = 2 and replay_until <= statement_timestamp())
          or (state = 1 and lease_until <= statement_timestamp() and effect <> 3))
      order by expires_at
      limit @limit
      for update skip locked))
  returning i.expires_at
)
select count(*), max(expires_at) from swept
