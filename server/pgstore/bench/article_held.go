package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// An execer and a querier are a pool, a connection or a transaction.
type (
	execer interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}
	querier interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
)

// articleRowLock holds a transaction through the handler: a look with FOR UPDATE
// SKIP LOCKED, the insert, and the answer.
var articleRowLock = article{
	name: "001, row lock",
	tables: `create table keys (
		key text primary key, request_hash bytea not null, status int, response bytea,
		created_at timestamptz not null default now(), expires_at timestamptz not null default now() + interval '1 day');
		create index on keys (expires_at)`,
	done: "select count(*) from keys where status = 200 and length(response) = 200",
	once: func(ctx context.Context, pool *pgxpool.Pool, key string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := absent(ctx, tx, "select status::text from keys where key = $1 for update skip locked", key); err != nil {
				return err
			}
			if err := changeOne(ctx, tx, "insert into keys (key, request_hash) values ($1, $2) on conflict (key) do nothing", key, requestHash); err != nil {
				return err
			}
			return changeOne(ctx, tx, "update keys set status = 200, response = $2 where key = $1", key, answer)
		})
	},
}

// articleTransaction holds one too, inserts before it looks, and marks the row as in
// progress, which nobody else ever sees.
var articleTransaction = article{
	name: "003, transaction",
	tables: `create table keys (
		key text primary key, request_hash bytea not null, state text not null default 'new', status int, response bytea,
		created_at timestamptz not null default now(), expires_at timestamptz not null default now() + interval '1 day');
		create index on keys (expires_at)`,
	done: "select count(*) from keys where state = 'completed' and length(response) = 200",
	once: func(ctx context.Context, pool *pgxpool.Pool, key string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := changeOne(ctx, tx, "insert into keys (key, request_hash) values ($1, $2) on conflict (key) do nothing", key, requestHash); err != nil {
				return err
			}
			var state string
			if err := tx.QueryRow(ctx, "select state from keys where key = $1 for update", key).Scan(&state); err != nil {
				return err
			}
			if err := changeOne(ctx, tx, "update keys set state = 'in_progress' where key = $1", key); err != nil {
				return err
			}
			return changeOne(ctx, tx, "update keys set state = 'completed', status = 200, response = $2 where key = $1", key, answer)
		})
	},
}
