-- A column cannot become a generated one: it is made anew, which rewrites the table.
-- Fails where a saga is none that the statements make.
drop index saga_unfinished;
alter table saga drop column driven;
alter table saga
  add column driven boolean not null generated always as (status in (1, 2)) stored,
  add constraint saga_status check (status between 1 and 6),
  add constraint saga_final check ((status in (3, 4, 6)) = (expires_at is not null));
create index saga_unfinished on saga (driven, engine, created_at) where expires_at is null;
delete from saga_version where version = 2;
