-- Forgets every saga: what is under way is neither finished nor undone.
drop table saga;
drop table saga_result;
drop table saga_engine;
drop table saga_plan;
drop table saga_audit;
drop table saga_version;
