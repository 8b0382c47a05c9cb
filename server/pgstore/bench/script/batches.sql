\set batch random(1, 9000000000000000000)
insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, created_at, lease_until, expires_at)
select md5((:batch)::text || '-' || i)::uuid, gen_random_uuid(), 1, 1, 2, 1, decode(repeat('07', 32), 'hex'),
  clock_timestamp(), clock_timestamp() + interval '1 minute', clock_timestamp() + interval '1 day'
from generate_series(1, 256) i;
update idempotency set state = 2, status = 200, envelope = decode(repeat('17', 200), 'hex'), replay_until = clock_timestamp() + interval '1 day'
from generate_series(1, 256) i
where key = md5((:batch)::text || '-' || i)::uuid and state = 1;
