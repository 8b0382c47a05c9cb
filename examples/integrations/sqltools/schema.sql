-- The tables of the ledger that the three services share. sqlc reads this file, too.
create table account (
  name  text   primary key,
  cents bigint not null check (cents >= 0)
);
create table entry (
  id      bigint generated always as identity primary key,
  account text   not null references account (name),
  cents   bigint not null check (cents <> 0)
);
