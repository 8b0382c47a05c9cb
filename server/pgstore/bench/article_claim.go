package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// articleAdvisoryLock takes a lock of the session on a hash of the key, looks,
// inserts a row that says "processing", completes it, and unlocks.
var articleAdvisoryLock = article{
	name: "000, advisory lock",
	tables: `create table keys (
		key text primary key, request_hash bytea not null, status text not null, code int, response jsonb,
		created_at timestamptz not null default now());
		create index on keys (created_at)`,
	done: "select count(*) from keys where status = 'completed' and code = 200 and response is not null",
	once: func(ctx context.Context, pool *pgxpool.Pool, key string) error {
		return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			var locked bool
			if err := conn.QueryRow(ctx, "select pg_try_advisory_lock(hashtextextended($1, 0))", key).Scan(&locked); err != nil || !locked {
				return errors.Join(err, errNotFirst)
			}
			err := absent(ctx, conn, "select status from keys where key = $1", key)
			if err == nil {
				err = changeOne(ctx, conn, "insert into keys (key, request_hash, status) values ($1, $2, 'processing') on conflict (key) do nothing", key, requestHash)
			}
			if err == nil {
				err = changeOne(ctx, conn, "update keys set status = 'completed', code = 200, response = $2 where key = $1", key, document)
			}
			_, unlockErr := conn.Exec(ctx, "select pg_advisory_unlock(hashtextextended($1, 0))", key)
			return errors.Join(err, unlockErr)
		})
	},
}

// articleStateMachine claims in a transaction of its own with FOR UPDATE, and keeps an index of the
// running requests for its worker.
var articleStateMachine = article{
	name: "002, state machine",
	tables: `create table keys (
		key text primary key, request_hash bytea not null, state text not null, locked_at timestamptz, code int, response jsonb,
		created_at timestamptz not null default now());
		create index on keys (locked_at) where state = 'processing'`,
	done: "select count(*) from keys where state = 'completed' and code = 200 and response is not null",
	once: func(ctx context.Context, pool *pgxpool.Pool, key string) error {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := absent(ctx, tx, "select state from keys where key = $1 for update", key); err != nil {
				return err
			}
			return changeOne(ctx, tx, "insert into keys (key, request_hash, state, locked_at) values ($1, $2, 'processing', now())", key, requestHash)
		})
		if err != nil {
			return err
		}
		return changeOne(ctx, pool, "update keys set state = 'completed', locked_at = null, code = 200, response = $2 where key = $1", key, document)
	},
}

// The fifth article's index is on what is pending, so that every completion writes to
// all indexes. The plain pair's is not.
const (
	claimFirstTable = `create table keys (
		key text primary key, request_hash bytea not null, status text not null default 'pending', code int, response jsonb,
		created_at timestamptz not null default now());
		create index on keys (created_at) where status = 'pending'`
	claimTable = `create table keys (
		key text primary key, request_hash bytea not null, status text not null default 'pending', code int, response jsonb,
		created_at timestamptz not null default now()) with (fillfactor = 90);
		create index on keys (created_at)`
	claimDone = "select count(*) from keys where status = 'completed' and code = 200 and response is not null"
)

// articleClaimFirst inserts before it does anything else, and completes with an update.
var articleClaimFirst = article{name: "004, claim first", tables: claimFirstTable, done: claimDone, once: insertThenUpdate}

func insertThenUpdate(ctx context.Context, pool *pgxpool.Pool, key string) error {
	if err := changeOne(ctx, pool, "insert into keys (key, request_hash) values ($1, $2) on conflict (key) do nothing", key, requestHash); err != nil {
		return err
	}
	return changeOne(ctx, pool, "update keys set status = 'completed', code = 200, response = $2 where key = $1", key, document)
}
