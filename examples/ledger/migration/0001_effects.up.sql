-- No unique constraint: nothing but the guard keeps an effect from happening twice.
create table effects (
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
create index effects_key on effects (tenant, key);

create table ledger_version (version integer primary key, oldest integer not null);
insert into ledger_version (version, oldest) values (1, 1);
