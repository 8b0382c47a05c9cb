-- Leave gives back what a relay has, so that others need not wait for the end of its lease.
with lanes as (
  update /*schema*/outbox_lane set relay = null, lease_until = '-infinity' where relay = @relay
)
delete from /*schema*/outbox_relay where relay = @relay
