-- Shards returns the ranges of hashes of the table's shards, and the node of each.
select s.shardminvalue::integer, s.shardmaxvalue::integer, p.groupid
from pg_dist_shard s
join pg_dist_placement p using (shardid)
where s.logicalrelid = '/*schema*/idempotency'::regclass and p.shardstate = 1
order by 1
