-- OnceOrFail is once.sql for a pipeline. The statements after it must not run if the key was used
-- before. So it returns nothing, or fails with 23505, and the server then passes over the rest. Such
-- a duplicate leaves a row for vacuum, and with once.sql it does not.
insert into /*schema*/idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint,
  created_at, lease_until, expires_at, replay_until, status)
values (@key, @token, 1, 2, 1, @fingerprint_version, @fingerprint,
  statement_timestamp(), statement_timestamp(), statement_timestamp() + @keep::interval, statement_timestamp() + @keep::interval, 200)
