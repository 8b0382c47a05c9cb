-- Deletes every saga: running sagas are neither finished nor undone.
drop table saga;
drop table saga_result;
drop table saga_engine;
drop table saga_plan;
drop table saga_audit;
drop table saga_version;
