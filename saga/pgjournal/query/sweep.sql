-- Sweep deletes at most @limit sagas that are past their retention, with their results, calls and signals. It
-- returns one row: the number of deleted sagas. The next sweep deletes sagas that are locked now.
-- statement_timestamp() is one instant for the whole statement, so that the index is searched up
-- to it and no further. What belongs to the sagas is found by an array: without statistics a join would read
-- it all.
with dead as (
  delete from /*schema*/saga
  where ctid = any (array(
      select f.ctid
      from unnest('{3,4,6}'::smallint[]) as final (status)
      cross join lateral (
        select s.ctid
        from /*schema*/saga s
        where s.status = final.status and s.expires_at <= statement_timestamp()
        order by s.expires_at
        limit @limit
        for update skip locked) f
      limit @limit))
  returning id
), results as (
  delete from /*schema*/saga_result
  where saga = any (array(select id from dead))
), locals as (
  delete from /*schema*/saga_local
  where saga = any (array(select id from dead))
), signals as (
  delete from /*schema*/saga_signal
  where saga = any (array(select id from dead))
)
select count(*) from dead
