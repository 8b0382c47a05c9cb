-- ReaderBrowse returns a page of the sagas of a window of time, the youngest first. It reads the index
-- on (created_at, id) from the end of the page before, until it has found enough. A null @from means
-- that the window begins @window before now.
select id, engine, plan, name, version, fence, revision, status, recovery_attempts, cancel, clean,
  created_at, first_claimed_at, deadline_at, failed_at, resumed_at, wake_at, finished_at, expires_at,
  cause, stuck_on, statement_timestamp() as now
from /*schema*/saga
where created_at >= coalesce(@from::timestamptz, statement_timestamp() - @window::interval)
  and (created_at, id) < (@before_created_at::timestamptz, @before_id::uuid)
  and status = any (@statuses::smallint[])
  and (@name::text = '' or name = @name)
order by created_at desc, id desc
limit @limit
