insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, created_at, lease_until, expires_at)
values (gen_random_uuid(), gen_random_uuid(), 1, 1, 2, 1, decode(repeat('07', 32), 'hex'),
  clock_timestamp(), clock_timestamp() + interval '1 minute', clock_timestamp() + interval '1 day');
