-- Renew extends the leases of those who still own a record in progress, and
-- returns them. It passes over rows that somebody has locked: an undo may
-- hold one for the length of its transaction, and must not end every lease of
-- this process. Who is missing is asked for again with renew_locked.sql.
update /*schema*/idempotency
set lease_until = clock_timestamp() + @lease::interval
where key = any (array(
    select i.key
    from /*schema*/idempotency i
    join unnest(@keys::uuid[], @tokens::uuid[], @fences::bigint[]) as o (key, token, fence)
      on i.key = o.key and i.token = o.token and i.fence = o.fence
    where i.state = 1
    order by i.key
    for no key update of i skip locked))
returning key, token, fence
