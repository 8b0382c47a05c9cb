create table holds (
	id    bigserial primary key,
	key   text not null unique, -- of the request that made it
	sku   text not null,
	count int  not null
);
