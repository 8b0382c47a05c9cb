-- This step drops the messages that were not published.
drop table outbox;
drop table outbox_relay;
drop table outbox_lane;
drop table outbox_version;
