-- The tables of sagas and of the engines that run them. The file names no schema: the search_path
-- decides.
--
-- Columns that never change come first, and columns that change come last. The server logs the
-- bytes between the first and the last byte that an update changes. In this order a 3-step saga
-- takes a third less log than with the columns sorted by width.
create table saga (
  created_at  timestamptz not null,
  version     integer     not null,
  id          uuid        not null primary key,
  plan        bytea       not null,
  input_hash  bytea       not null,
  name        text        not null,
  scope       text        not null,
  key         text        not null,
  input       bytea       not null,
  fence       bigint      not null,
  engine      uuid        not null,
  first_claimed_at timestamptz,
  deadline_at timestamptz,
  failed_at   timestamptz,
  resumed_at  timestamptz,
  cause       bytea,
  stuck_on    bytea,
  entry_room  integer     not null default 65536,
  -- Engines whose lease ended under the saga since it last got on; none if recovery_attempts is 0.
  lapsed      uuid[],
  recovery_attempts integer not null default 0,
  -- How many of the revisions are wakes, which the saga's owner does not know, since it has that owner.
  wakes       integer     not null default 0,
  cancel      boolean     not null default false,
  status      smallint    not null,
  -- A saga without an engine is clean if its entries have all that was done for it. It has a
  -- wake_at if it has work to do. A saga with an engine is not clean. It has a wake_at only if a
  -- person asked for a retry at once: then it is due when its engine gives it up.
  clean       boolean     not null,
  wake_at     timestamptz,
  slept_at    timestamptz, -- when its owner gave it up; null while it has one
  finished_at timestamptz,
  expires_at  timestamptz,
  revision    bigint      not null,
  entries     bytea       not null default '',
  result      bytea
) with (fillfactor = 50);

-- The statements keep two rules, and tests check them: the status is one of 1 to 6, and
-- expires_at is set where the status is final (3, 4, 6). Postgres would read the text of check
-- constraints anew in each statement that writes. That would be a fifth of the time of a saga's
-- writes.

-- No write of a step changes a column of these indexes, so that it is HOT. Each index has a
-- condition, so that a saga is in few of them at a time.
--
-- For claims of due sagas without an engine.
create index saga_due on saga (plan, wake_at)
  where status in (1, 2) and engine = '00000000-0000-0000-0000-000000000000';
-- For claims of sagas that were given up at a time that is still to come: the clock has gone back.
create index saga_slept on saga (plan, slept_at)
  where status in (1, 2) and engine = '00000000-0000-0000-0000-000000000000' and slept_at is not null;
-- For claims of sagas whose engine has no lease.
create index saga_owned on saga (engine, plan, created_at)
  where status in (1, 2) and engine <> '00000000-0000-0000-0000-000000000000';
-- For claims of deferred sagas by builds that can read them.
create index saga_deferred on saga (plan, created_at)
  where status in (1, 2) and engine = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
-- For lists and counts of unfinished sagas.
create index saga_unfinished on saga (status, created_at) where expires_at is null;
-- For the sweep, and for counts of finished sagas.
create index saga_finished on saga (status, expires_at) where expires_at is not null;

alter table saga set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Results of steps that are too large to be written again with each step.
create table saga_result (
  revision bigint   not null,
  saga     uuid     not null,
  position smallint not null,
  result   bytea    not null,
  primary key (saga, revision, position)
);

-- ANALYZE would copy inputs and results to the statistics, where they stay when the rows are
-- gone. No statement looks sagas up by these columns.
alter table saga
  alter column input set statistics 0,
  alter column input_hash set statistics 0,
  alter column entries set statistics 0,
  alter column result set statistics 0,
  alter column cause set statistics 0,
  alter column stuck_on set statistics 0;
alter table saga_result alter column result set statistics 0;

-- lz4 packs JSON several times faster than the default. Not every server was
-- built with it, and older or related ones do not know the words.
do $$
begin
  execute 'alter table saga alter column input set compression lz4, alter column entries set compression lz4, alter column result set compression lz4';
  execute 'alter table saga_result alter column result set compression lz4';
exception when feature_not_supported or syntax_error then
  null;
end
$$;

-- One row per life of an engine: the lease of all sagas that it owns.
create table saga_engine (
  lease_until timestamptz not null,
  id          uuid        not null primary key,
  has_left    boolean     not null default false,
  lease       interval    not null default '0' -- that the engine asked for last
) with (fillfactor = 50);

-- For claims: they look for lapsed engines between the living ones.
create index saga_engine_living on saga_engine (lease_until) where not has_left;

-- The plans that sagas were started with. People read them, and Open refuses a changed plan.
create table saga_plan (
  created_at timestamptz not null default clock_timestamp(),
  version    integer     not null,
  name       text        not null,
  hash       bytea       not null,
  lines      text[]      not null,
  primary key (name, version)
);

-- The verbs that were applied to sagas, with their actors. The table outlives the sagas.
create table saga_audit (
  id          bigint      generated always as identity,
  at          timestamptz not null default clock_timestamp(),
  saga        uuid        not null,
  verb        text        not null,
  step        text        not null,
  actor       text        not null,
  reason      text        not null,
  from_status smallint    not null,
  to_status   smallint    not null,
  fence       bigint      not null,
  primary key (saga, id)
);
create index saga_audit_id on saga_audit (id);

-- The migration steps that were taken. A program can use the tables if it knows each version that
-- is an oldest here. So a step that only adds something leaves older programs ready.
create table saga_version (
  version     integer     not null primary key,
  oldest      integer     not null default 1,
  migrated_at timestamptz not null default now()
);
insert into saga_version (version, oldest) values (1, 1);
