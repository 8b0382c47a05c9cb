-- Sweep deletes at most so many sagas that are past their time, with their results.
-- It returns one row: how many sagas. Locked ones are left to the next sweep.
-- statement_timestamp() is one instant for the whole statement, so that the index is
-- searched up to it and no further.
with dead as (
  delete from /*schema*/saga
  where ctid = any (array(
      select ctid
      from /*schema*/saga
      where expires_at <= statement_timestamp() and status in (3, 4, 6)
      order by expires_at
      limit @limit
      for update skip locked))
  returning id
), results as (
  delete from /*schema*/saga_result r
  using dead
  where r.saga = dead.id
)
select count(*) from dead
