-- What a program was about to do, for callers that nobody gives a key: one row for
-- each parent key, inserted before the first call is sent, so that a process which
-- starts over can go on with the same key. Only those use it that ask for it.
create table idempotency_intent (
  -- The parent key: its own text, since it is sent.
  key       text collate "C" primary key,
  -- What it was derived from: for people, and for who looks for unfinished ones.
  namespace text    not null,
  parts     bytea[] not null,
  began_at  timestamptz not null default clock_timestamp(),
  done_at   timestamptz
);

-- The parts may be a person's, and ANALYZE would copy them to the statistics.
alter table idempotency_intent alter column parts set statistics 0;

-- The unfinished ones, oldest first; and those that can be swept.
create index idempotency_intent_pending on idempotency_intent (began_at) where done_at is null;
create index idempotency_intent_done on idempotency_intent (done_at) where done_at is not null;

insert into idempotency_version (version, oldest) values (3, 1);
