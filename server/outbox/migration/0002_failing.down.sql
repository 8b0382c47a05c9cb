drop index outbox_failing;

delete from outbox_version where version = 2;
