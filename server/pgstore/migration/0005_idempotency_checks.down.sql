-- Fails where a record is none that the statements make.
alter table idempotency
  add constraint idempotency_state check (state between 1 and 6),
  add constraint idempotency_effect check (effect between 0 and 3),
  add constraint idempotency_answer check (state <> 2 or (status is not null and replay_until is not null));
delete from idempotency_version where version = 5;
