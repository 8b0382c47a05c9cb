-- Records as version 1 of the schema holds them, and as the library of that version wrote them: a
-- guard without a namespace, server.Unscoped, effect class Keyed, POST / without a body. Only the
-- times are relative. A later version reads these rows as they are: never change them.
insert into idempotency (key, token, fence, state, effect, recovery_attempts, maybe_ran, fingerprint_version,
  fingerprint, created_at, lease_until, expires_at, replay_until, status, envelope) values
-- done
('dc90efa5-66e1-cdbf-56ea-75cc57af08bf', 'e2263649-ebcd-7cb3-8e81-ad3932b36e8b', 1, 2, 2, 0, false, 1,
  '\x681971e1c21e8f114f2fa2320cebcde44cd2f5923fa8f36bea6d8d660cc775ed',
  now() - interval '1 hour', now() - interval '30 minutes', now() + interval '7 days', now() + interval '1 day', 201,
  '\x01020c436f6e74656e742d54797065106170706c69636174696f6e2f6a736f6e084c6f636174696f6e0c2f6f72646572732f646f6e651e7b226f72646572223a22646f6e65222c22746f74616c223a3165327d000a'),
-- declined
('12539f53-8ffd-d070-b9d6-07f78af45285', 'ee3922c7-9a51-2564-a8b5-9728088f8674', 1, 2, 2, 0, false, 1,
  '\xa088b53241215573123946af80107c61aeb14199a5e03abc2d5b202c11174905',
  now() - interval '1 hour', now() - interval '30 minutes', now() + interval '7 days', now() + interval '1 day', 402,
  '\x01020c436f6e74656e742d54797065106170706c69636174696f6e2f6a736f6e084c6f636174696f6e102f6f72646572732f6465636c696e6564227b226f72646572223a226465636c696e6564222c22746f74616c223a3165327d000a'),
-- released
('768369a4-d59c-e9cb-eaca-e86c470947e4', '62813626-9105-bd6e-5355-c0ea3778378f', 1, 3, 2, 0, true, 1,
  '\x1e605758db3177044ace2125b102377a4e227cbf59376aaaad111883a46da67e',
  now() - interval '1 hour', now() - interval '30 minutes', now() + interval '7 days', null, null,
  null),
-- alive
('72e8d3e7-ca74-de80-059a-eca69ddecf63', '0655975c-953c-1752-1487-4213006ecdbd', 1, 1, 2, 0, false, 1,
  '\x946566d08f79599f40b6bf0326d80ac25c6d9e2fae7f8f586a72768b6ab9a95e',
  now() - interval '1 hour', now() + interval '1 hour', now() + interval '7 days', null, null,
  null),
-- dead
('d59bee7c-43b6-e271-14e0-5d35ca9e7ec7', '8600cab7-b458-1e5a-ad03-ba8a7253936d', 1, 1, 2, 0, false, 1,
  '\x1a5c8803470042a44e6eb801af09773135c7972497ae00bb5fb37a8a23263c2c',
  now() - interval '1 hour', now() - interval '30 minutes', now() + interval '7 days', null, null,
  null);
