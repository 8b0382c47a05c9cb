-- Whether somebody in another process waits for the end of the run, and listens:
-- then whoever ends it sends a notification, and else never, for a notification
-- takes a lock that all commits of the server would wait for in turn. Set by who
-- waits, back by who takes over. No index: the update is HOT.
alter table idempotency add column waiters boolean not null default false;

insert into idempotency_version (version, oldest) values (4, 1);
