-- name: LockAccount :one
select cents from account where name = $1 for update;

-- name: SetBalance :exec
update account set cents = $2 where name = $1;

-- name: InsertEntry :one
insert into entry (account, cents) values ($1, $2) returning id;
