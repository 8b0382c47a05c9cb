// Command payment is the payment service that the README's callers call. It has no
// database of its own: a bank makes the charges, and the bank knows no keys. Its routes
// are therefore Opaque.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/readme/shopapi"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Two amounts end otherwise than with a receipt.
const (
	declined = 13  // every charge of 13 cents is declined
	lost     = 500 // the answer to the first charge of 500 cents is lost
)

// A bank makes charges.
type bank struct{ answerLost atomic.Bool }

func (b *bank) charge(_ context.Context, p shopapi.Payment) (shopapi.Receipt, error) {
	switch {
	case p.Cents == declined:
		return shopapi.Receipt{}, &server.StatusError{Status: http.StatusPaymentRequired, Code: "card-declined"}
	case p.Cents == lost && b.answerLost.CompareAndSwap(false, true):
		return shopapi.Receipt{}, errors.New("the bank's answer was lost") // 500: nobody knows the outcome
	}
	log.Println("charged", p.Cents, "cents")
	return shopapi.Receipt{ID: "receipt-" + rand.Text()[:8]}, nil
}

func refund(ctx context.Context, undo contract.Undo[shopapi.Payment, shopapi.Receipt]) (none struct{}, err error) {
	fate, err := server.Barrier(ctx)
	if err != nil || fate == server.NeverRan {
		return none, err
	}
	log.Println("refunded", undo.Input.Cents, "cents")
	return none, nil
}

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	check(pgstore.Migrate(ctx, pool, ""))
	store, err := pgstore.Open(ctx, pool.Config(), pgstore.Config{})
	check(err)
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Namespace: "payment", Logger: slog.Default()})
	check(err)
	go guard.RunSweeper(ctx)
	mux := http.NewServeMux()
	check(server.Handle(mux, guard, shopapi.Charge, server.Opaque, new(bank).charge))
	check(server.Handle(mux, guard, shopapi.Refund, server.Opaque, refund))
	check(http.ListenAndServe("localhost:8081", mux))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
