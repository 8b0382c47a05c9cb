-- Sweep deletes at most so many records that are past their time and that nobody
-- can need. The row count says how many. Live, unknown and poisoned ones stay, and
-- so does a dead opaque run: it is the only trace of effects that may have happened.
-- The scalar subquery makes one instant of clock_timestamp(), so that the index
-- is searched up to it and no further. Locked rows are left to the next sweep.
delete from /*schema*/idempotency
where ctid = any (array(
    select ctid
    from /*schema*/idempotency
    where expires_at <= (select clock_timestamp())
      and (state in (3, 6)
        or (state = 2 and replay_until <= clock_timestamp())
        or (state = 1 and lease_until <= clock_timestamp() and effect <> 3))
    order by expires_at
    limit @limit
    for update skip locked))
