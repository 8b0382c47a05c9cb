-- The messages that wait to be published. It names no schema: the search_path of the session chooses
-- the schema.
--
-- A message is in a lane, which is made of its aggregate, and one relay at a time publishes a lane.
-- Positions of one aggregate grow in the order of commits. Messages are deleted once they are published.
create table outbox (
  lane       smallint    not null,
  position   bigint      not null generated always as identity,
  attempts   integer     not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  key        text        not null collate "C",
  topic      text        not null,
  aggregate  text        not null,
  headers    jsonb,
  payload    bytea       not null,
  last_error text,
  primary key (lane, position)
);

-- The table is small and changes all the time: vacuum it soon, and leave payloads out of the statistics.
alter table outbox set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_insert_scale_factor = 0);
alter table outbox
  alter column payload set statistics 0,
  alter column headers set statistics 0,
  alter column last_error set statistics 0;

-- The relays that are at work. Each takes its share of the lanes.
create table outbox_relay (
  relay       uuid        not null primary key,
  lease_until timestamptz not null
);

-- The lanes, and which relay publishes each.
create table outbox_lane (
  lane        smallint    not null primary key,
  relay       uuid,
  lease_until timestamptz not null default '-infinity'
);
insert into outbox_lane (lane) select generate_series(0, 31);

-- The steps that were taken. A program can use the tables if it knows each version that is an "oldest" here.
create table outbox_version (
  version     integer     not null primary key,
  oldest      integer     not null default 1,
  migrated_at timestamptz not null default now()
);
insert into outbox_version (version, oldest) values (1, 1);
