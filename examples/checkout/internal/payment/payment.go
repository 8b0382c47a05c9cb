// Package payment is the payment service: it takes money.
package payment

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/unguarded"
	"github.com/fanonce/fanonce/server"
)

// Serve serves the contract on mux, guarded.
func Serve(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger) error {
	return server.Handle(mux, guard, paymentapi.Charge, server.Transactional, charge(book))
}

// ServeUnguarded serves the contract on mux without a guard.
func ServeUnguarded(mux *http.ServeMux, book ledger.Ledger) error {
	return unguarded.Handle(mux, paymentapi.Charge, charge(book))
}

// charge charges once for each time that it runs.
func charge(book ledger.Ledger) func(context.Context, paymentapi.Payment) (paymentapi.Receipt, error) {
	return func(ctx context.Context, in paymentapi.Payment) (paymentapi.Receipt, error) {
		receipt := paymentapi.Receipt{ID: "charge-" + rand.Text()}
		return receipt, book.Append(ctx, ledger.Entry{Order: in.Order, ID: receipt.ID, Cents: in.Cents})
	}
}
