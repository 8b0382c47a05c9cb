-- RenewLocked extends the leases of those who still own a record in progress,
-- waiting for locks as long as the lock timeout lets it. It returns who they are:
-- who is missing has lost the lease. In key order, so that two of these do not
-- wait for each other.
update /*schema*/idempotency
set lease_until = clock_timestamp() + @lease::interval
where key = any (array(
    select i.key
    from (select set_config('lock_timeout', @lock_timeout, true) as lock_timeout) s
    cross join unnest(@keys::uuid[], @tokens::uuid[], @fences::bigint[]) as o (key, token, fence)
    join /*schema*/idempotency i
      on i.key = o.key and i.token = o.token and i.fence = o.fence
    where s.lock_timeout is not null and i.state = 1
    order by i.key
    for no key update of i))
returning key, token, fence
