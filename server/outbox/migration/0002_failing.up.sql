-- The messages that the broker did not take at least once, for lists and counts. Other messages are not in the index,
-- and so pay nothing for it.
create index outbox_failing on outbox (lane, position) where attempts > 0;

insert into outbox_version (version, oldest) values (2, 1);
