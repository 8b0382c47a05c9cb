-- Three roles for the tables of keys: who may change the tables, who may use
-- them, and who may look on. Run it in the tables' schema, as a superuser or as
-- who owns the tables and may create roles; after each migration again: it can be
-- run any number of times.
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

alter table idempotency owner to fanonce_owner;
alter table idempotency_audit owner to fanonce_owner;
alter table idempotency_version owner to fanonce_owner;
alter table idempotency_answer owner to fanonce_owner;
alter table idempotency_detached owner to fanonce_owner;
alter table idempotency_intent owner to fanonce_owner;
alter table idempotency_attention owner to fanonce_owner;

revoke all on idempotency, idempotency_audit, idempotency_answer, idempotency_detached, idempotency_intent, idempotency_attention,
  idempotency_version from public, fanonce_runtime, fanonce_observer;

-- A service claims, settles, reads and sweeps. It cannot change whose call a key
-- was first used for, nor when.
grant select, insert, delete on idempotency to fanonce_runtime;
grant update (token, fence, state, effect, recovery_attempts, maybe_ran, fingerprint_version, fingerprint, lease_until,
  expires_at, replay_until, answer_until, status, envelope, answer_kept_until, route, memo, waiters) on idempotency to fanonce_runtime;
-- Partitions are made and dropped by their owner, who notes which it detached.
grant select, insert, delete on idempotency_answer to fanonce_runtime;
grant select on idempotency_detached to fanonce_runtime;
-- It begins, ends and sweeps intents, whose parent keys the observer does not see.
grant select, insert, delete, update (done_at) on idempotency_intent to fanonce_runtime;
grant select (namespace, parts, began_at, done_at) on idempotency_intent to fanonce_observer;
-- It notes the keys that need a person, and an observer reads which these are.
grant select, insert, update, delete on idempotency_attention to fanonce_runtime;
grant select on idempotency_attention to fanonce_observer;
-- It writes to the log, and never takes anything back.
grant select, insert on idempotency_audit to fanonce_runtime;
grant select on idempotency_version to fanonce_runtime, fanonce_observer;

-- An observer sees where keys stand and how old they are: no answer, no memo, no
-- fingerprint to guess a body from, and no token to act as an owner with. A
-- Reader needs no more rights than these.
grant select (key, parent, state, effect, fence, recovery_attempts, maybe_ran, created_at, first_sent, lease_until, expires_at,
  replay_until, answer_until, status, route) on idempotency to fanonce_observer;
grant select on idempotency_audit to fanonce_observer;
