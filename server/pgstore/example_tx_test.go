package pgstore_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
)

// poolExample is a pool on a new server, with the tables of the examples.
func poolExample(ctx context.Context) (*pgxpool.Pool, func(), error) {
	cluster, err := pgtest.Start(ctx, pgtest.Config{Private: true})
	if err != nil {
		return nil, func() {}, err
	}
	pool, err := pgxpool.New(ctx, cluster.URL("postgres"))
	if err != nil {
		return nil, func() { _ = cluster.Stop() }, err
	}
	stop := func() {
		pool.Close()
		_ = cluster.Stop()
	}
	if err := pgstore.Migrate(ctx, pool, ""); err != nil {
		return nil, stop, err
	}
	_, err = pool.Exec(ctx, "create table entry (cents int not null)")
	return pool, stop, err
}

// A consumer uses its own transaction: one commit has the key, the work and nothing else.
func ExampleOnce() {
	ctx := context.Background()
	pool, stop, err := poolExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := childkey.FromParts("payouts", "2026-11", "ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			first, err := pgstore.Once(ctx, tx, pgstore.OnceRequest{Scope: "acme", Name: "payout", Key: key, Payload: []byte("4200")})
			fmt.Println("first:", first)
			if err != nil || !first {
				return err
			}
			_, err = tx.Exec(ctx, "insert into entry values (4200)")
			return err
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	var entries int
	err = pool.QueryRow(ctx, "select count(*) from entry").Scan(&entries)
	fmt.Println(entries, err)
	// Output:
	// first: true
	// first: false
	// 1 <nil>
}

// This is the same with a transaction of the store's, which begins with the
// key: one round trip less.
func ExampleStore_OnceFunc() {
	ctx := context.Background()
	store, stop, err := openExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	request := pgstore.OnceRequest{Scope: "acme", Name: "payout", Key: childkey.MustParse("payout-7"), Payload: []byte("4200")}
	for range 2 {
		first, err := store.OnceFunc(ctx, request, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "insert into entry values ($1)", 4200)
			return err
		})
		fmt.Println(first, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

// The key, work that is known beforehand, and the commit take one round trip.
func ExampleStore_SendOnce() {
	ctx := context.Background()
	store, stop, err := openExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	request := pgstore.OnceRequest{Scope: "acme", Name: "payout", Key: childkey.MustParse("payout-7"), Payload: []byte("4200")}
	for range 2 {
		batch := new(pgx.Batch)
		batch.Queue("insert into entry values ($1)", 4200)
		first, err := store.SendOnce(ctx, request, batch)
		fmt.Println(first, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

// An undo runs in a transaction of its own. The call that it undoes never came,
// and can never run.
func ExampleBarrier() {
	ctx := context.Background()
	pool, stop, err := poolExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	forward, err := childkey.Derive(childkey.MustParse("order-42"), "ledger", "book")
	if err != nil {
		fmt.Println(err)
		return
	}
	undo, err := childkey.Derive(childkey.MustParse("order-42"), "ledger", "unbook")
	if err != nil {
		fmt.Println(err)
		return
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		fate, first, err := pgstore.Barrier(ctx, tx, forward, pgstore.OnceRequest{Scope: "acme", Name: "unbook", Key: undo})
		fmt.Println(fate, first)
		return err
	})
	fmt.Println(err)
	// Output:
	// never ran true
	// <nil>
}

// announced is a saga. A service has a call for a step.
var announced = saga.MustDefine("announced", 1, func(b *saga.Builder[int, string]) {
	publish := saga.StepFunc(b, "orders.publish", b.Input(), func(_ context.Context, c saga.Call[int]) (string, error) {
		return fmt.Sprint("order ", c.Input), nil
	}).ReadOnly()
	saga.Return(b, publish.Output())
})

// One commit has the row, the answer and the start of a saga. A replay starts no second saga.
func ExampleTx_startSaga() {
	ctx := context.Background()
	pool, stop, err := poolExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := pgjournal.Migrate(ctx, pool, ""); err != nil {
		fmt.Println(err)
		return
	}
	store, err := pgstore.Open(ctx, pool.Config(), pgstore.Config{AllowNonDurable: true}) // pgtest runs without fsync
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	task := server.Task{Name: "order", Scope: "acme", Effect: server.Transactional}
	for range 2 {
		_, replayed, err := server.Do(ctx, guard, task, childkey.MustParse("order-42"), 42, func(ctx context.Context, order int) (bool, error) {
			if err := pgstore.Queue(ctx, "insert into entry values ($1)", order); err != nil {
				return false, err
			}
			key, _ := childkey.FromContext(ctx)
			return pgjournal.Start(ctx, pgstore.Tx(ctx), announced, key, order, pgjournal.StartConfig{})
		})
		fmt.Println("replayed:", replayed, err)
	}
	var entries, sagas int
	err = pool.QueryRow(ctx, "select (select count(*) from entry), (select count(*) from saga)").Scan(&entries, &sagas)
	fmt.Println(entries, sagas, err)
	// Output:
	// replayed: false <nil>
	// replayed: true <nil>
	// 1 1 <nil>
}

// The handler reads in its transaction, and leaves the write to the round trip of the commit.
func ExampleQueue() {
	ctx := context.Background()
	store, stop, err := openExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	task := server.Task{Name: "book", Scope: "acme", Effect: server.Transactional}
	for _, key := range []string{"order-42", "order-42", "order-43"} {
		n, replayed, err := server.Do(ctx, guard, task, childkey.MustParse(key), 4200, func(ctx context.Context, cents int) (n int, err error) {
			if err := pgstore.Tx(ctx).QueryRow(ctx, "select count(*) from entry").Scan(&n); err != nil {
				return 0, err
			}
			return n + 1, pgstore.Queue(ctx, "insert into entry values ($1)", cents)
		})
		fmt.Println(n, replayed, err)
	}
	// Output:
	// 1 false <nil>
	// 1 true <nil>
	// 2 false <nil>
}

// A handler that uses database/sql has the run's own transaction.
func ExampleSQLTx() {
	ctx := context.Background()
	store, stop, err := openExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	task := server.Task{Name: "book", Scope: "acme", Effect: server.Transactional}
	for range 2 {
		n, replayed, err := server.Do(ctx, guard, task, childkey.MustParse("order-42"), 4200, func(ctx context.Context, cents int) (n int, err error) {
			tx, err := pgstore.SQLTx(ctx)
			if err != nil {
				return 0, err
			}
			if _, err := tx.ExecContext(ctx, "insert into entry values ($1)", cents); err != nil {
				return 0, err
			}
			return n, tx.QueryRowContext(ctx, "select count(*) from entry").Scan(&n)
		})
		fmt.Println(n, replayed, err)
	}
	// Output:
	// 1 false <nil>
	// 1 true <nil>
}
