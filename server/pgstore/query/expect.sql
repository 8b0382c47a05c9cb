-- Expect notes on the records of runs that somebody waits for their end, and listens (settle.sql).
-- It returns the number of each run that has ended, with true, and the number of each run whose
-- record has the note, with false. Ask again for a run that it does not return. The process that
-- ends a run sees a note from before the end: both update the same record. It passes over locked
-- records: the holder is about to end the run, or to renew its lease. So it never waits, and holds
-- up nobody for long. Its commit does not wait for the disk: a note that is lost in a crash costs
-- only time. A record that has the note already is left alone.
with noted as (
  update /*schema*/idempotency
  set waiters = true
  from (select set_config('synchronous_commit', 'off', true) as synchronous_commit) s
  where s.synchronous_commit is not null and key = any (array(
    select f.key
    from unnest(@keys::uuid[], @fences::bigint[]) as w (key, fence)
    cross join lateral (
      select i.key from /*schema*/idempotency i
      where i.key = w.key and i.fence = w.fence and i.state = 1 and not i.waiters
      for no key update skip locked) f))
  returning key
)
select w.n, r.waiters is null as ended
from unnest(@keys::uuid[], @fences::bigint[]) with ordinality as w (key, fence, n)
left join lateral (
  select i.waiters from /*schema*/idempotency i
  where i.key = w.key and i.fence = w.fence and i.state = 1
  offset 0) r on true
where r.waiters is null or r.waiters or w.key in (select key from noted)
