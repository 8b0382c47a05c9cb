-- The records of guarded keys. It names no schema: the search_path of the session chooses the
-- schema.
--
-- Columns that a completion does not change come first, those of 8 bytes before smaller ones. The
-- others come last. A completion then logs only the end of the row: Postgres leaves out the bytes
-- that the old and the new row share at their beginning. The two indexes are on columns that never
-- change, and the fill factor leaves room on each page. So a completion writes no index entry, and
-- its predecessor is pruned in passing (HOT).
create table idempotency (
  fence               bigint      not null,
  created_at          timestamptz not null,
  lease_until         timestamptz not null,
  expires_at          timestamptz not null,
  recovery_attempts   integer     not null default 0,
  effect              smallint    not null,
  fingerprint_version smallint    not null,
  key                 uuid        not null primary key,
  token               uuid        not null,
  first_sent          timestamptz,
  -- The caller's record, for people who look for the calls of one request. It decides nothing.
  parent              uuid,
  fingerprint         bytea,
  route               text,
  memo                bytea,
  maybe_ran           boolean     not null default false,
  -- From here on a completion changes the row.
  state               smallint    not null,
  status              integer,
  replay_until        timestamptz,
  answer_until        timestamptz,
  -- Null where the answer is in the record itself.
  answer_kept_until   timestamptz,
  -- Whether somebody in another process waits for the end of the run, and listens. Only then the
  -- process that ends the run sends a notification: a notification takes a lock that all commits of
  -- the server wait for in turn. The waiting process sets it, and a take-over resets it. The column
  -- has no index, so the update is HOT.
  waiters             boolean     not null default false,
  envelope            bytea
) with (fillfactor = 90);

-- The statements keep these rules, and tests of all stores check them. The state is 1 to 6, the
-- effect is 0 to 3, and a completed record (2) has a status and a replay_until. Postgres would read
-- the text of check constraints anew for each statement that writes. That is a tenth of the time of
-- a shared commit of ten claims and completions.

-- For the sweep alone. No index may name state, lease_until or replay_until,
-- not even in its predicate: every completion would then write to all indexes.
create index idempotency_expires_at on idempotency (expires_at);

-- For the reconciler alone. Like the other it is on columns that never change, and
-- its predicate changes only where a key is taken over by another class of route.
create index idempotency_opaque on idempotency (created_at, key) where effect = 3;

-- Vacuum by rows changed, not by a fifth of a table that may be large.
alter table idempotency set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- ANALYZE would copy answers and memos to the statistics, where they stay when the rows are
-- gone. No statement looks records up by these columns.
alter table idempotency
  alter column envelope set statistics 0,
  alter column memo set statistics 0,
  alter column fingerprint set statistics 0;

-- lz4 packs JSON several times faster than the default. Not every server was
-- built with it, and older or related ones do not know the words.
do $$
begin
  execute 'alter table idempotency alter column envelope set compression lz4';
exception when feature_not_supported or syntax_error then
  null;
end
$$;

-- The changes that people made to keys, with their names. The log outlives the records.
create table idempotency_audit (
  id         bigint      generated always as identity primary key,
  at         timestamptz not null default clock_timestamp(),
  key        uuid        not null,
  verb       text        not null,
  actor      text        not null,
  reason     text        not null,
  from_state smallint    not null,
  to_state   smallint    not null,
  fence      bigint      not null
);
create index idempotency_audit_key on idempotency_audit (key);

-- The answers in time partitions. Answers are large and short-lived, and a partition is dropped
-- whole: deleting the answers one by one would leave work for vacuum. Keys stay in the other table,
-- so that each key is there once, whatever day it is. A record finds its answer by the time that
-- the answer is kept until.
--
-- The table is empty unless Config.Answers says otherwise, and it has partitions only once somebody
-- maintains them. A default partition must not exist: beside it no other can be detached
-- concurrently.
create table idempotency_answer (
  kept_until timestamptz not null,
  key        uuid        not null,
  envelope   bytea       not null,
  primary key (kept_until, key)
) partition by range (kept_until);

-- ANALYZE would copy answers to the statistics, where they stay when the rows are gone.
alter table idempotency_answer alter column envelope set statistics 0;

-- The partitions that maintenance detached, or is about to: it drops these tables and no others. A
-- table is known by its number, and by the names that it had then: a person who renames a table
-- wants to keep it.
create table idempotency_detached (
  table_oid   oid         not null primary key,
  schema_name text        not null,
  table_name  text        not null,
  detached_at timestamptz not null default statement_timestamp()
);

-- The intents of programs that get no key from their callers. Each parent key has one row, inserted
-- before the first call is sent. So a process that starts over can go on with the same key. Only
-- programs that ask for intents use the table.
create table idempotency_intent (
  -- The parent key: its own text, since it is sent.
  key       text collate "C" primary key,
  -- The key was derived from these, which are for people and for the search for unfinished intents.
  namespace text    not null,
  parts     bytea[] not null,
  began_at  timestamptz not null default clock_timestamp(),
  done_at   timestamptz
);

-- The parts may be a person's data, and ANALYZE would copy them to the statistics.
alter table idempotency_intent alter column parts set statistics 0;

-- The unfinished intents, oldest first, and the intents that can be swept.
create index idempotency_intent_pending on idempotency_intent (began_at) where done_at is null;
create index idempotency_intent_done on idempotency_intent (done_at) where done_at is not null;

-- The steps that were taken. A program can use the tables if it knows each version that is an
-- "oldest" here. So programs from before a step that only adds something can still use the tables.
create table idempotency_version (
  version     integer     not null primary key,
  oldest      integer     not null default 1,
  migrated_at timestamptz not null default now()
);
insert into idempotency_version (version, oldest) values (1, 1);
