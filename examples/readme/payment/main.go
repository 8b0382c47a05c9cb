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
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

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
		return shopapi.Receipt{}, server.Refuse(http.StatusPaymentRequired, "card-declined", "The card has no money.")
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := pgstore.OpenURL(ctx, os.Getenv("DATABASE_URL"), pgstore.Config{Migrate: true})
	check(err)
	defer store.Close()
	guard, err := server.NewGuard(store, server.Unscoped, server.Config{Namespace: "payment", Logger: slog.Default()})
	check(err)
	mux := http.NewServeMux()
	server.MustHandle(mux, guard, shopapi.Charge, server.Opaque, new(bank).charge)
	server.MustHandle(mux, guard, shopapi.Refund, server.Opaque, refund)
	web := &http.Server{Addr: "localhost:8081", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	check(guard.Serve(ctx, web, server.Stop{}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
