package pgjournal_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk"
)

// newBilling returns a saga with a step in the journal's own database.
func newBilling(j *pgjournal.Journal) *saga.Definition[Order, string] {
	return saga.MustDefine("billing", 1, func(b *saga.Builder[Order, string]) {
		paid := saga.StepFunc(b, "orders.paid", b.Input(), pgjournal.Local(j, markPaid)).
			UndoFunc("orders.unpaid", pgjournal.UndoLocal(j, unmarkPaid))
		saga.Return(b, paid.Output())
	})
}

func markPaid(ctx context.Context, tx pgx.Tx, order Order) (status string, err error) {
	err = tx.QueryRow(ctx, "insert into orders (id) values ($1) returning 'paid'", order.ID).Scan(&status)
	return status, err
}

func unmarkPaid(ctx context.Context, tx pgx.Tx, order Order, status *string) error {
	if status == nil {
		return saga.ErrNothingToUndo // and markPaid will not run any more
	}
	_, err := tx.Exec(ctx, "delete from orders where id = $1", order.ID)
	return err
}

// A step writes rows of the service that runs the saga. They are committed once, however often the step is tried.
func ExampleLocal() {
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
	billing := newBilling(j)
	engine, err := saga.Open(ctx, j, saga.Config{Client: client, Definitions: []saga.AnyDefinition{billing}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close(ctx) }()

	fmt.Println(billing.Run(ctx, engine, childkey.MustParse("order-1042"), Order{ID: "order-1042"}))
	var orders int
	err = j.Pool().QueryRow(ctx, "select count(*) from orders").Scan(&orders)
	fmt.Println(orders, err)
	// Output:
	// paid <nil>
	// 1 <nil>
}
