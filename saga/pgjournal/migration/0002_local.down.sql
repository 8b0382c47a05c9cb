-- Forgets which local steps were committed: a step that is tried again then takes effect again.
drop table saga_local;
delete from saga_version where version = 2;
