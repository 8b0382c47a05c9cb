-- ClaimManyAlike is claim_many.sql for claims that share effect, lease, retention, window and route, and
-- that need no memo. Such a flush is the rule. The server takes fewer arrays apart, and sends fewer
-- columns: the other times of a record follow from created_at, which is the same in all rows.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, route)
select c.key, c.token, 1, 1, @effect::smallint, @fingerprint_version::smallint, c.fingerprint, c.parent,
  statement_timestamp(), c.first_sent, statement_timestamp() + @lease::interval, statement_timestamp() + @keep::interval, @route::text
from (select unnest(@keys::uuid[]) as key, unnest(@tokens::uuid[]) as token, unnest(@fingerprints::bytea[]) as fingerprint,
    unnest(@parents::uuid[]) as parent, unnest(@first_sents::timestamptz[]) as first_sent) c
where (c.first_sent is null or c.first_sent >= statement_timestamp() - @window::interval)
  and not exists (select from /*schema*/idempotency i where i.key = c.key)
returning key, created_at
