-- The ledger's own table, beside the store's. The file is sent as one query, and so is one
-- transaction. Processes that start at once wait for each other's: "if not exists" alone can
-- fail in a race.
select pg_advisory_xact_lock(hashtext('ledger effects'));

-- No unique constraint: nothing but the guard keeps an effect from happening twice.
create table if not exists effects (
  seq       bigserial   primary key,
  tenant    text        not null,
  key       text        not null,
  service   text        not null,
  fp        text        not null,
  effect_id text        not null,
  fence     bigint      not null,
  saga      text,
  kind      text        not null,
  at        timestamptz not null default clock_timestamp()
);

-- An undo looks for the effect of the key that it takes back.
create index if not exists effects_key on effects (tenant, key);
