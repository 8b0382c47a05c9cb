-- Sweep deletes at most @limit records that expire at @after or later, are past their time, and are
-- not needed any more. It returns one row: how many it deleted, and when the last of them expired
-- (null: there was none). Live, unknown and quarantined records stay. A dead opaque run stays too: it
-- is the only trace of effects that may have happened. The time is statement_timestamp(), one
-- instant for the whole statement, so that the index is searched up to it and no further. Locked
-- rows are left to the next sweep. Its commit does not wait for the disk, nor for a standby: the
-- next sweep deletes a record that a crash brings back. The claim of a swept key makes both
-- durable, because the log is flushed in order.
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
