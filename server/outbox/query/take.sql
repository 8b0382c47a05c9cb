-- Take renews the lanes of a relay, and takes free ones up to its share. A lane above the share is left to others. It
-- returns the lanes that the relay has from now on.
with mine as (
  select lane
  from /*schema*/outbox_lane
  where relay = @relay or lease_until < clock_timestamp()
  order by relay is distinct from @relay, random()
  limit @share
  for update skip locked
), left_to_others as (
  update /*schema*/outbox_lane
  set relay = null, lease_until = '-infinity'
  where relay = @relay and lane not in (select lane from mine)
)
update /*schema*/outbox_lane
set relay = @relay, lease_until = clock_timestamp() + @lease::interval
where lane in (select lane from mine)
returning lane
