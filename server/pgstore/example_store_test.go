package pgstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

var keyOfOrder = childkey.MustParse("order-42")

// An order and the intent to carry it out are committed together. A process that starts looks for intents that were
// not carried out to their end.
func ExampleIntents_Stage() {
	ctx := context.Background()
	store, stop, err := openExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	intents := store.Intents()
	first, err := store.OnceFunc(ctx, pgstore.OnceRequest{Scope: "acme", Name: "order", Key: keyOfOrder}, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "insert into entry values ($1)", 4200); err != nil {
			return err
		}
		_, err := intents.Stage(ctx, tx, "checkout", "order-42")
		return err
	})
	fmt.Println(first, err)

	pending, err := intents.Pending(ctx, 0, 100) // sdk.Begin with these parts does it again, under the same keys
	for _, intent := range pending {
		fmt.Println(intent.Namespace, intent.Parts, err)
	}
	fmt.Println(intents.Done(ctx, "checkout", "order-42"))
	pending, err = intents.Pending(ctx, 0, 100)
	fmt.Println(len(pending), err)
	// Output:
	// true <nil>
	// checkout [order-42] <nil>
	// <nil>
	// 0 <nil>
}

// Answers are kept for a month, in a table whose partitions are dropped. The sweeper maintains the partitions. Before
// the first request the example creates them here.
func ExampleStore_MaintainPartitions() {
	ctx := context.Background()
	pool, stop, err := poolExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := pgstore.Open(ctx, pool.Config(), pgstore.Config{
		Answers:           pgstore.AnswersPartitioned,
		PartitionInterval: 7 * 24 * time.Hour,
		AllowNonDurable:   true, // pgtest runs without fsync
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	const month = 30 * 24 * time.Hour
	if err := store.MaintainPartitions(ctx, month); err != nil {
		fmt.Println(err)
		return
	}
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Retention: month, AuditRetention: month})
	if err != nil {
		fmt.Println(err)
		return
	}
	n, _, err := server.Do(ctx, guard, server.Task{Name: "add", Scope: "acme", Effect: server.Keyed}, keyOfOrder, 41,
		func(_ context.Context, n int) (int, error) { return n + 1, nil })
	fmt.Println(n, err)
	var apart int
	err = pool.QueryRow(ctx, "select count(*) from idempotency_answer").Scan(&apart)
	fmt.Println(apart, err)
	// Output:
	// 42 <nil>
	// 1 <nil>
}
