insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, created_at, lease_until, expires_at)
values (gen_random_uuid(), gen_random_uuid(), 1, 1, 2, 1, decode(repeat('07', 32), 'hex'),
  clock_timestamp(), clock_timestamp() + interval '1 minute', clock_timestamp() + interval '1 day')
returning key \gset
update idempotency set state = 2, status = 200, envelope = decode(repeat('17', 200), 'hex'), replay_until = clock_timestamp() + interval '1 day'
where key = :key and state = 1;
