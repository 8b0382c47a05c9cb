-- Renew extends the leases of the owners that still own a record in progress, and returns these
-- owners. An owner that it does not return has lost the lease. lock_timeout.sql goes before it. If
-- a transaction holds one of the records the statement fails after a moment, and the caller asks
-- for fewer owners at a time. It does not use "skip locked": a distributed table locks rows one key
-- at a time. A text names an owner by its key, token and fence. With three lists side by side one
-- owner's key could match another owner's fence. It uses greatest, because two renewals may arrive
-- in either order.
update /*schema*/idempotency
set lease_until = greatest(lease_until, statement_timestamp() + @lease::interval)
where key = any (@keys::uuid[]) and state = 1
  and key::text || token::text || fence::text = any (@owners::text[])
returning key, token, fence
