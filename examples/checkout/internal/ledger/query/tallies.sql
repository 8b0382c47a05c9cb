-- Tallies returns one row for each order that has an effect, with all of them.
select order_id, array_agg(id order by seq) as ids, sum(cents)::bigint as cents
from ledger
group by order_id
order by order_id
