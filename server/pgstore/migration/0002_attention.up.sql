-- The keys that need a person: unknown, quarantined, and of dead letters. Such keys are few, and the
-- records are many: a list of them by the state of the records would read the whole table, because
-- no index may name a column that changes.
--
-- A row is a note. The record decides: a note counts only while its record has this fence and this
-- state. So a note that outlives its reason harms nobody, and the sweep deletes it.
create table idempotency_attention (
  created_at timestamptz not null,
  noted_at   timestamptz not null,
  fence      bigint      not null,
  key        uuid        not null primary key,
  -- 4: unknown, 5: quarantined, 2: completed as a dead letter, 1: a dead run of an Opaque claim, for its reconciler.
  state      smallint    not null
);

-- The order of lists.
create index idempotency_attention_created_at on idempotency_attention (created_at, key);

-- This reads the records once, and locks none of them. Programs of version 1 that go on beside this
-- version make no notes. The sweep of any newer program makes up for that.
insert into idempotency_attention (created_at, noted_at, fence, key, state)
select created_at, statement_timestamp(), fence, key, state
from idempotency
where state in (4, 5);

insert into idempotency_version (version, oldest) values (2, 1);
