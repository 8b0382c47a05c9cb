package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn" //nolint:depguard // a program that measures, and nobody's caller
)

// costSettings make the server count statements, those of transactions
// themselves (BEGIN, COMMIT) too.
var costSettings = map[string]string{
	"shared_preload_libraries": "pg_stat_statements",
	"pg_stat_statements.track": "top",
	"pg_stat_statements.save":  "off",
}

// A sample has the server's counts since its start.
type sample struct {
	statements   float64 // of clients, in all databases but the one of this query
	transactions float64 // that wrote
	walBytes     float64
}

// since returns the average cost of the n runs between before and s.
func (s sample) since(before sample, n int) sample {
	each := float64(n)
	return sample{(s.statements - before.statements) / each, (s.transactions - before.transactions) / each, (s.walBytes - before.walBytes) / each}
}

func (s sample) ofStatements() float64   { return s.statements }
func (s sample) ofTransactions() float64 { return s.transactions }
func (s sample) ofWAL() float64          { return s.walBytes }

// startCounting has to come before the first sample of a cluster.
func (c *cluster) startCounting(ctx context.Context) error {
	_, err := c.look.Exec(ctx, "create extension if not exists pg_stat_statements")
	var missing *pgconn.PgError
	if errors.As(err, &missing) && missing.Code == "0A000" { // feature_not_supported: no control file
		return fmt.Errorf("bench: the server lacks pg_stat_statements, of Postgres' contrib modules: %w", err)
	}
	return err
}

// sample reads statistics without a delay. A transaction that writes takes an ID, and a
// transaction that only reads takes none.
func (c *cluster) sample(ctx context.Context) (sample, error) {
	var s sample
	err := c.look.QueryRow(ctx, `
		select (select coalesce(sum(calls), 0)::float8 from pg_stat_statements
		    where dbid <> (select oid from pg_database where datname = current_database())),
		  (pg_snapshot_xmax(pg_current_snapshot())::text)::float8,
		  (pg_current_wal_insert_lsn() - '0/0')::float8`).Scan(&s.statements, &s.transactions, &s.walBytes)
	return s, err
}
