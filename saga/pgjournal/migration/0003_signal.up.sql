-- The signals that sagas were sent, at most one of a name. The primary key decides between a value and the end of the
-- wait for it, whose value is null. A signal can be there before its saga. Rows are deleted with their sagas.
create table saga_signal (
  saga     uuid        not null,
  check_at timestamptz not null, -- when the sweep looks whether the saga is there
  woken    boolean     not null, -- false: the saga's row may not say yet that it is due
  name     text        not null,
  value    bytea,
  primary key (saga, name)
);

-- For engines that wake the sagas of signals which a user's transaction stored.
create index saga_signal_unheard on saga_signal (saga) where not woken;
-- For the sweep of signals whose saga never came, or is gone.
create index saga_signal_check on saga_signal (check_at);

alter table saga_signal
  alter column value set statistics 0,
  set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

do $$
begin
  execute 'alter table saga_signal alter column value set compression lz4';
exception when feature_not_supported or syntax_error then
  null;
end
$$;

insert into saga_version (version, oldest) values (3, 1);
