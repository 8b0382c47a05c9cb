-- Forgets the answers that are in partitions: their keys stay, without an answer.
drop table idempotency_answer;
drop table idempotency_detached;
alter table idempotency drop column answer_kept_until;
delete from idempotency_version where version = 2;
