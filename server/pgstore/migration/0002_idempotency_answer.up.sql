-- Where answers are kept in time partitions: they are large and short-lived, and a
-- partition is dropped whole, where deleting them one by one would leave a vacuum
-- to do. Keys stay in the other table, so that each is there once, whatever day it
-- is. A record finds its answer by the time that the answer is kept until.
--
-- Empty unless Config.Answers says otherwise, and without partitions until
-- somebody maintains them. There must be no default partition: none could be
-- detached concurrently then.
create table idempotency_answer (
  kept_until timestamptz not null,
  key        uuid        not null,
  envelope   bytea       not null,
  primary key (kept_until, key)
) partition by range (kept_until);

-- ANALYZE would copy answers to the statistics, where they stay when the rows are gone.
alter table idempotency_answer alter column envelope set statistics 0;

-- The partitions that maintenance detached, or is about to: it drops these tables and no
-- others. A table is known by its number, and by the names that it had then: whoever
-- renames one wants to keep it.
create table idempotency_detached (
  table_oid   oid         not null primary key,
  schema_name text        not null,
  table_name  text        not null,
  detached_at timestamptz not null default statement_timestamp()
);

-- Null where the answer is in the record itself.
alter table idempotency add column answer_kept_until timestamptz;

insert into idempotency_version (version, oldest) values (2, 1);
