-- Join makes a relay known for the time of its lease, and returns how many relays there are.
with dead as (
  delete from /*schema*/outbox_relay
  where relay = any (array(select relay from /*schema*/outbox_relay where lease_until < clock_timestamp() and relay <> @relay for update skip locked))
), me as (
  insert into /*schema*/outbox_relay (relay, lease_until) values (@relay, clock_timestamp() + @lease::interval)
  on conflict (relay) do update set lease_until = excluded.lease_until
)
select count(*) + 1
from /*schema*/outbox_relay
where lease_until >= clock_timestamp() and relay <> @relay
