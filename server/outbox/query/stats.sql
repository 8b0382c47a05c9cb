-- Stats counts what waits, and since when. No count exceeds @most: to count a million takes too long. The oldest message is
-- among the first ones of the lanes, whose positions grow with time.
select
  (select count(*) from (select from /*schema*/outbox order by lane, position limit @most) w),
  (select count(*) from (select from /*schema*/outbox where attempts > 0 order by lane, position limit @most) f),
  coalesce(extract(epoch from clock_timestamp() - (
    select min(first.created_at)
    from /*schema*/outbox_lane l
    cross join lateral (
      select o.created_at from /*schema*/outbox o where o.lane = l.lane order by o.position limit 1) first)), 0)::float8,
  (select count(*) from /*schema*/outbox_relay where lease_until >= clock_timestamp())
