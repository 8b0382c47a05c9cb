-- This step forgets every key: the work that was done under a key can be done again. It forgets the
-- answers and the intents. An unfinished intent that is begun again is sent under the same key, but
-- no record says that it was begun before.
drop table idempotency;
drop table idempotency_audit;
drop table idempotency_answer;
drop table idempotency_detached;
drop table idempotency_intent;
drop table idempotency_version;
