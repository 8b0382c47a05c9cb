-- ClaimManyContended is claim_many.sql for when others claim the same keys at the same moment: it
-- waits for them, and passes over the keys that they have claimed. Each of its rows is inserted
-- speculatively and then confirmed, which takes one more record of WAL.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, parent,
  created_at, first_sent, lease_until, expires_at, route, memo)
select c.key, c.token, 1, 1, c.effect, c.fingerprint_version, c.fingerprint, c.parent,
  statement_timestamp(), c.first_sent, statement_timestamp() + c.lease, statement_timestamp() + c.keep, c.route, c.memo
from (select unnest(@keys::uuid[]) as key, unnest(@tokens::uuid[]) as token, unnest(@effects::smallint[]) as effect,
    unnest(@fingerprint_versions::smallint[]) as fingerprint_version, unnest(@fingerprints::bytea[]) as fingerprint,
    unnest(@parents::uuid[]) as parent, unnest(@first_sents::timestamptz[]) as first_sent, unnest(@leases::interval[]) as lease, unnest(@keeps::interval[]) as keep,
    unnest(@windows::interval[]) as "window", unnest(@routes::text[]) as route, unnest(@memos::bytea[]) as memo) c
where c.first_sent is null or c.first_sent >= statement_timestamp() - c."window"
on conflict (key) do nothing
returning key, created_at, lease_until, expires_at
