-- Stats counts the sagas by status. It returns a row for each status that has any,
-- with how many of them are orphans, how many of these are parked, and the age of the oldest. It reads the whole
-- table.
select s.status, count(*),
  count(*) filter (where s.driven and not exists (
    select from /*schema*/saga_engine e
    where e.id = s.engine and not e.has_left and e.lease_until > clock_timestamp())),
  count(*) filter (where s.driven and s.engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff'),
  coalesce(clock_timestamp() - min(s.created_at) filter (where isfinite(s.created_at)), interval '0')
from /*schema*/saga s
group by s.status
