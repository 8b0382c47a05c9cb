-- Three roles for the tables of sagas: one may change the tables, one may use them, and one may
-- only look. Run this file in the tables' schema, as a superuser or as an owner of the tables
-- that may create roles. Run it again after each migration: it can be run any number of times. In
-- a database that also has the tables of keys, both share these roles.
--
-- Give the login roles of your services one of these: grant fanonce_runtime to
-- orders. Migrations run as fanonce_owner.
do $$
begin
  if to_regrole('fanonce_owner') is null then
    create role fanonce_owner nologin;
  end if;
  if to_regrole('fanonce_runtime') is null then
    create role fanonce_runtime nologin;
  end if;
  if to_regrole('fanonce_observer') is null then
    create role fanonce_observer nologin;
  end if;
end
$$;

do $$
begin
  execute format('grant usage, create on schema %I to fanonce_owner', current_schema());
  execute format('grant usage on schema %I to fanonce_runtime, fanonce_observer', current_schema());
end
$$;

alter table saga owner to fanonce_owner;
alter table saga_result owner to fanonce_owner;
alter table saga_local owner to fanonce_owner;
alter table saga_signal owner to fanonce_owner;
alter table saga_engine owner to fanonce_owner;
alter table saga_plan owner to fanonce_owner;
alter table saga_audit owner to fanonce_owner;
alter table saga_version owner to fanonce_owner;

revoke all on saga, saga_result, saga_local, saga_signal, saga_engine, saga_plan, saga_audit, saga_version from public, fanonce_runtime, fanonce_observer;

-- A service starts, runs, reads and sweeps sagas, and moves them to another version of their
-- definition. It cannot change the other columns that a saga was started with.
grant select, insert, delete on saga to fanonce_runtime;
grant update (plan, version, fence, engine, first_claimed_at, deadline_at, failed_at, resumed_at, cause, stuck_on, entry_room, lapsed, recovery_attempts, wakes, cancel, status, clean,
  wake_at, slept_at, finished_at, expires_at, revision, entries, result) on saga to fanonce_runtime;
grant select, insert, delete on saga_result to fanonce_runtime;
-- A call that was committed, or refused, stays so until its saga is swept.
grant select, insert, delete, update (undone, output) on saga_local to fanonce_runtime;
-- The first value that a saga was sent stays.
grant select, insert, delete, update (woken, check_at) on saga_signal to fanonce_runtime;
grant select, insert, delete, update (lease_until, has_left, lease) on saga_engine to fanonce_runtime;
-- A plan never changes: running sagas were started with it.
grant select, insert on saga_plan to fanonce_runtime;
-- A service writes to the audit log, and cannot delete from it.
grant select, insert on saga_audit to fanonce_runtime;
grant select on saga_version to fanonce_runtime, fanonce_observer;

-- An observer sees where sagas stand and how old they are: no key to send calls
-- with, no input, no result, and no hash to guess an input from.
grant select (id, name, version, plan, created_at, fence, engine, revision, wakes, status, clean, recovery_attempts, cancel, first_claimed_at, deadline_at,
  failed_at, resumed_at, wake_at, finished_at, expires_at) on saga to fanonce_observer;
grant select on saga_engine, saga_plan, saga_audit to fanonce_observer;
