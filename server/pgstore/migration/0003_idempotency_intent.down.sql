-- Forgets what was begun. What is unfinished will be sent under the same keys if it
-- is begun again, but nobody will know that it had been.
drop table idempotency_intent;
delete from idempotency_version where version = 3;
