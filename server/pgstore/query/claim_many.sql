-- ClaimMany is claim.sql for several keys, after flush.sql. It returns one row for
-- each claim that won; of two for one key the first wins. They come in key order, as
-- everybody inserts who inserts several: two of these wait for each other in turn,
-- and not in a circle. The time is that at which the server received the statement.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint,
  created_at, first_sent, lease_until, expires_at, route, memo)
select c.key, c.token, 1, 1, c.effect, c.fingerprint_version, c.fingerprint,
  statement_timestamp(), c.first_sent, statement_timestamp() + c.lease, statement_timestamp() + c.keep, c.route, c.memo
from unnest(@keys::uuid[], @tokens::uuid[], @effects::smallint[], @fingerprint_versions::smallint[], @fingerprints::bytea[],
    @first_sents::timestamptz[], @leases::interval[], @keeps::interval[], @windows::interval[], @routes::text[], @memos::bytea[])
  as c (key, token, effect, fingerprint_version, fingerprint, first_sent, lease, keep, "window", route, memo)
where c.first_sent is null or c.first_sent >= statement_timestamp() - c."window"
on conflict (key) do nothing
returning key, token, created_at, lease_until, expires_at
