-- Schema makes the ledger's table. It may run again.
-- order_id is deliberately not unique: the demo counts what the guard keeps out.
create table if not exists ledger (
    seq      bigint generated always as identity primary key,
    order_id text   not null,
    id       text   not null,
    cents    bigint not null
)
