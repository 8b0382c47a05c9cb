-- The records of guarded keys. It names no schema: whoever runs it chooses one
-- by the search_path.
--
-- Columns of 8 bytes first, then smaller ones: no padding. The two indexes are on
-- columns that never change, and the fill factor leaves room on each page, so that
-- a completion writes no index entry and its predecessor is pruned in passing (HOT).
create table idempotency (
  fence               bigint      not null,
  created_at          timestamptz not null,
  lease_until         timestamptz not null,
  expires_at          timestamptz not null,
  first_sent          timestamptz,
  replay_until        timestamptz,
  answer_until        timestamptz,
  deaths              integer     not null default 0,
  status              integer,
  state               smallint    not null,
  effect              smallint    not null,
  fingerprint_version smallint    not null,
  maybe_ran           boolean     not null default false,
  key                 uuid        not null primary key,
  token               uuid        not null,
  fingerprint         bytea,
  envelope            bytea,
  route               text,
  memo                bytea,
  constraint idempotency_state check (state between 1 and 6),
  constraint idempotency_effect check (effect between 0 and 3),
  constraint idempotency_answer check (state <> 2 or (status is not null and replay_until is not null))
) with (fillfactor = 90);

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

-- What was done to keys in somebody's name. It outlives the records.
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

-- The steps that were taken. A program can use the tables if it knows each version that is
-- an oldest here: so a step that adds something leaves the programs from before it ready.
create table idempotency_version (
  version     integer     not null primary key,
  oldest      integer     not null default 1,
  migrated_at timestamptz not null default now()
);
insert into idempotency_version (version, oldest) values (1, 1);
