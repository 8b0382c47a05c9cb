-- Who waits is not notified any more, and asks.
alter table idempotency drop column waiters;
delete from idempotency_version where version = 4;
