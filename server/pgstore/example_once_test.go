package pgstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A batch of the caller's own begins with the key: the statements after it take effect once.
func ExampleOnceRequest_Queue() {
	ctx := context.Background()
	pool, stop, err := poolExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	request := pgstore.OnceRequest{Scope: "acme", Name: "payout", Key: childkey.MustParse("payout-7"), Payload: []byte("4200")}
	for range 2 {
		batch := new(pgx.Batch)
		if err := request.Queue(batch); err != nil {
			fmt.Println(err)
			return
		}
		batch.Queue("insert into entry values ($1)", 4200)
		err := request.BatchError(pool.SendBatch(ctx, batch).Close())
		fmt.Println("done before:", errors.Is(err, pgstore.ErrDuplicate))
	}
	// Output:
	// done before: false
	// done before: true
}

// A consumer can use database/sql.
func ExampleOnceRequest_OnceSQL() {
	ctx := context.Background()
	pool, stop, err := poolExample(ctx)
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	request := pgstore.OnceRequest{Scope: "acme", Name: "payout", Key: childkey.MustParse("payout-7"), Payload: []byte("4200")}
	payOut := func() (first bool, err error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return false, err
		}
		defer tx.Rollback() // nothing, once it is committed
		if first, err = request.OnceSQL(ctx, tx); err != nil || !first {
			return first, err
		}
		if _, err := tx.ExecContext(ctx, "insert into entry values ($1)", 4200); err != nil {
			return false, err
		}
		return true, tx.Commit()
	}
	for range 2 {
		fmt.Println(payOut())
	}
	// Output:
	// true <nil>
	// false <nil>
}
