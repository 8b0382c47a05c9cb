-- Sweep deletes at most @limit sagas that are past their retention, with their results, calls and signals. It returns
-- one row: the number of deleted sagas. It reads IDs first, and deletes by ID: a distributed table
-- cannot pass over locked rows. So it waits for locked sagas.
with dead as (
  delete from /*schema*/saga
  where id = any (array(
      select s.id
      from /*schema*/saga s
      where s.status in (3, 4, 6) and s.expires_at <= statement_timestamp()
      order by s.expires_at
      limit @limit))
    and status in (3, 4, 6) and expires_at <= statement_timestamp()
  returning id
), results as (
  delete from /*schema*/saga_result r
  using dead
  where r.saga = dead.id
), locals as (
  delete from /*schema*/saga_local l
  using dead
  where l.saga = dead.id
), signals as (
  delete from /*schema*/saga_signal g
  using dead
  where g.saga = dead.id
)
select count(*) from dead
