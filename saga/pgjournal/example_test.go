package pgjournal_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgtest"
)

// Order is what the examples' saga is about.
type Order struct {
	ID    string
	Cents int
}

// Settle has a function for a step, where a service would have an operation.
var Settle = saga.MustDefine("settle", 1, func(b *saga.Builder[Order, string]) {
	invoice := saga.StepFunc(b, "books.invoice", b.Input(), func(_ context.Context, c saga.Call[Order]) (string, error) {
		return fmt.Sprintf("%s: %d cents", c.Input.ID, c.Input.Cents), nil
	}).ReadOnly()
	saga.Return(b, invoice.Output())
})

// exampleServer starts a server with the tables of the examples.
func exampleServer(ctx context.Context) (cfg *pgxpool.Config, stop func(), err error) {
	cluster, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		return nil, func() {}, err
	}
	stop = func() { _ = cluster.Stop() }
	if cfg, err = pgxpool.ParseConfig(cluster.URL("postgres")); err != nil {
		return nil, stop, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, stop, err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, "create table orders (id text)")
	return cfg, stop, errors.Join(err, pgjournal.Migrate(ctx, pool, ""))
}

// An engine that keeps its sagas in Postgres: the second run finds the result of the
// first.
func ExampleOpen() {
	ctx := context.Background()
	cfg, stop, err := exampleServer(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	j, err := pgjournal.Open(ctx, cfg, pgjournal.Config{AllowNonDurable: true}) // pgtest runs without fsync
	if err != nil {
		fmt.Println(err)
		return
	}
	defer j.Close()
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"books": {URL: "http://books.internal"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := saga.Open(ctx, j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{Settle}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close(ctx) }()

	key := childkey.MustParse("order-1042")
	for range 2 {
		fmt.Println(Settle.Run(ctx, engine, key, Order{ID: "order-1042", Cents: 4200}))
	}
	// Output:
	// order-1042: 4200 cents <nil>
	// order-1042: 4200 cents <nil>
}

// A codec seals what the tables hold of the orders. A guard can have the same one.
func ExampleConfig_codec() {
	ctx := context.Background()
	cfg, stop, err := exampleServer(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	secret := make([]byte, server.AESKeyBytes) // from a key service; never from the code
	codec, err := server.NewAESGCM(server.AESKey{ID: "2026-11", Secret: secret})
	if err != nil {
		fmt.Println(err)
		return
	}
	j, err := pgjournal.Open(ctx, cfg, pgjournal.Config{Codec: codec, AllowNonDurable: true}) // pgtest runs without fsync
	if err != nil {
		fmt.Println(err)
		return
	}
	defer j.Close()
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	key, order := childkey.MustParse("order-1042"), Order{ID: "order-1042", Cents: 4200}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := pgjournal.Start(ctx, tx, Settle, key, order, j.StartConfig())
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var readable bool
	err = pool.QueryRow(ctx, "select position('4200'::bytea in input) > 0 from saga").Scan(&readable)
	fmt.Println("the table shows the order:", readable, err)
	r, err := j.Read(ctx, journal.IDOf("", "settle", key))
	fmt.Println(string(r.Input), err)
	// Output:
	// the table shows the order: false <nil>
	// {"ID":"order-1042","Cents":4200} <nil>
}

// One commit stores an order and guarantees that it will be settled.
func ExampleStart() {
	ctx := context.Background()
	cfg, stop, err := exampleServer(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	key, order := childkey.MustParse("order-1042"), Order{ID: "order-1042", Cents: 4200}
	for range 2 {
		err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			created, err := pgjournal.Start(ctx, tx, Settle, key, order, pgjournal.StartConfig{})
			if err != nil || !created {
				return err // the order is there already
			}
			_, err = tx.Exec(ctx, "insert into orders (id) values ($1)", order.ID)
			return err
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	var orders, sagas int
	err = pool.QueryRow(ctx, "select (select count(*) from orders), (select count(*) from saga)").Scan(&orders, &sagas)
	fmt.Println(orders, sagas, err)
	// Output: 1 1 <nil>
}
