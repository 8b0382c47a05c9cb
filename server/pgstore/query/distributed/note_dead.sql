-- NoteDead notes those of the keys whose owners are still dead. A key that has a note already keeps it, see
-- ../find_dead.sql.
insert into /*schema*/idempotency_attention (key, created_at, noted_at, fence, state)
select key, created_at, statement_timestamp(), fence, state
from /*schema*/idempotency
where key = any (@keys::uuid[])
  and effect = 3
  and state = 1
  and lease_until <= statement_timestamp()
on conflict (key) do nothing
