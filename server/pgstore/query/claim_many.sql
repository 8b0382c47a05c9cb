-- ClaimMany is claim.sql for several keys, each there once, after flush.sql. It returns one row for
-- each claim that won. The claims come in key order, as in every statement that inserts several
-- keys. So two of these statements never wait for each other in a circle. The time is the time at
-- which the server received the statement. It looks first, without "on conflict", which would write
-- a sixteenth more of WAL. It fails with 23505 if another transaction inserts one of the keys in
-- between. Then the combiner sends claim.sql for each key, in one transaction. Arrays are taken apart
-- in a select list. In "from" each array would have a store of its own for its rows, and making these
-- stores was a sixth of the flush.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, route, memo)
select c.key, c.token, 1, 1, c.effect, c.fingerprint_version, c.fingerprint, c.parent,
  statement_timestamp(), c.first_sent, statement_timestamp() + c.lease, statement_timestamp() + c.keep, c.route, c.memo
from (select unnest(@keys::uuid[]) as key, unnest(@tokens::uuid[]) as token, unnest(@effects::smallint[]) as effect,
    unnest(@fingerprint_versions::smallint[]) as fingerprint_version, unnest(@fingerprints::bytea[]) as fingerprint,
    unnest(@parents::uuid[]) as parent, unnest(@first_sents::timestamptz[]) as first_sent, unnest(@leases::interval[]) as lease, unnest(@keeps::interval[]) as keep,
    unnest(@windows::interval[]) as "window", unnest(@routes::text[]) as route, unnest(@memos::bytea[]) as memo) c
where (c.first_sent is null or c.first_sent >= statement_timestamp() - c."window")
  and not exists (select from /*schema*/idempotency i where i.key = c.key)
returning key, created_at, lease_until, expires_at
