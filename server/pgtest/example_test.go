package pgtest_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgtest"
)

// A program that crashes its Postgres finds the rows that were committed before.
func ExampleStart() {
	ctx := context.Background()
	cluster, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Stop()

	url, err := cluster.CreateDatabase(ctx, "ledger")
	if err != nil {
		log.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "create table entry as select 42 as amount"); err != nil {
		log.Fatal(err)
	}
	if err := cluster.Kill(); err != nil {
		log.Fatal(err)
	}
	if err := cluster.Restart(ctx); err != nil {
		log.Fatal(err)
	}
	conn, err = pgx.Connect(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	var amount int
	err = conn.QueryRow(ctx, "select amount from entry").Scan(&amount)
	fmt.Println(amount, err)
	// Output: 42 <nil>
}

// One line gives a test a pool on a database of its own.
func ExampleNewPool() {
	t := new(exampleTB) // in a test: its *testing.T
	defer t.end()

	createOrders := func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
		_, err := pool.Exec(ctx, "create table orders (id bigint primary key)")
		return err
	}
	pool := pgtest.NewPool(t, createOrders)
	done, err := pool.Exec(t.Context(), "insert into orders values (1)")
	fmt.Println(done, err)
	// Output: INSERT 0 1 <nil>
}

// A test without pgx takes a URL.
func ExampleURL() {
	t := new(exampleTB) // in a test: its *testing.T
	defer t.end()

	url := pgtest.URL(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(t.Context())
	fmt.Println(conn.Ping(t.Context()))
	// Output: <nil>
}

// exampleTB replaces the *testing.T, because an example does not get one.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (e *exampleTB) Helper()                  {}
func (e *exampleTB) Context() context.Context { return context.Background() }
func (e *exampleTB) Cleanup(f func())         { e.cleanups = append(e.cleanups, f) }
func (e *exampleTB) Error(args ...any)        { log.Print(args...) }
func (e *exampleTB) Fatal(args ...any)        { log.Fatal(args...) }

func (e *exampleTB) end() {
	for _, cleanup := range slices.Backward(e.cleanups) {
		cleanup()
	}
}
