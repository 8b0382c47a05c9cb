package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/fanonce/fanonce/server/pgstore"
)

// migrate makes the tables of both halves. A real shop and a real ledger have a database each.
func migrate(ctx context.Context, o *options) error {
	pool, err := pgxpool.New(ctx, o.database)
	if err != nil {
		return fmt.Errorf("-database: %w", err)
	}
	defer pool.Close()
	return createTables(ctx, pool, "")
}

// tables are of the business. No unique constraint keeps a payment from being booked twice: the inbox does.
const tables = `
	create table if not exists payment (id text primary key, account text not null, cents bigint not null);
	create table if not exists entry (payment text not null, account text not null, cents bigint not null);
	create table if not exists dead_letter (source text not null, id text not null, cause text not null, at timestamptz not null default now())`

func createTables(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	if err := pgstore.Migrate(ctx, pool, schema); err != nil {
		return err
	}
	jobs, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema})
	if err != nil {
		return err
	}
	if _, err := jobs.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, tables)
	return err
}
