-- The tables of the README's services, beside those of the guard. A service of yours has a migration tool for them.
create table orders (id bigint generated always as identity primary key, sku text not null);
create table holds (id bigint generated always as identity, key text primary key, sku text not null);
