-- The calls of local steps, each written by the transaction that has the rows of its step. The row is
-- what makes the step happen once: it has an output once the call is committed, and a refusal if the
-- call never will be. Rows are deleted with their sagas.
create table saga_local (
  saga    uuid    not null,
  undone  boolean not null default false,
  key     text    not null,
  output  bytea,
  refusal bytea,
  primary key (saga, key)
) with (fillfactor = 50);

alter table saga_local
  alter column output set statistics 0,
  alter column refusal set statistics 0,
  set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

do $$
begin
  execute 'alter table saga_local alter column output set compression lz4';
exception when feature_not_supported or syntax_error then
  null;
end
$$;

insert into saga_version (version, oldest) values (2, 1);
