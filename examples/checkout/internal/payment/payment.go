// Package payment is the payment service: it takes money.
package payment

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/unguarded"
	"github.com/fanonce/fanonce/server"
)

// Serve serves the contract on mux, guarded.
func Serve(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger) error {
	return errors.Join(
		server.Handle(mux, guard, paymentapi.Charge, server.Transactional, charge(book)),
		server.Handle(mux, guard, paymentapi.Refund, server.Transactional, refund(book)),
	)
}

// ServeUnguarded serves the contract on mux without a guard.
func ServeUnguarded(mux *http.ServeMux, book ledger.Ledger) error {
	return unguarded.Handle(mux, paymentapi.Charge, charge(book))
}

// charge charges once for each time that it runs.
func charge(book ledger.Ledger) func(context.Context, paymentapi.Payment) (paymentapi.Receipt, error) {
	return func(ctx context.Context, in paymentapi.Payment) (paymentapi.Receipt, error) {
		if in.Card == paymentapi.DeclinedCard {
			return paymentapi.Receipt{}, server.Refuse(http.StatusPaymentRequired, "card-declined", "")
		}
		receipt := paymentapi.Receipt{ID: "charge-" + rand.Text()}
		return receipt, book.Append(ctx, ledger.Entry{Order: in.Order, ID: receipt.ID, Cents: in.Cents})
	}
}

// refund gives a charge back, if there is one.
func refund(book ledger.Ledger) func(context.Context, contract.Undo[paymentapi.Payment, paymentapi.Receipt]) (paymentapi.Refunded, error) {
	return func(ctx context.Context, undo contract.Undo[paymentapi.Payment, paymentapi.Receipt]) (paymentapi.Refunded, error) {
		fate, err := server.Barrier(ctx)
		if err != nil || fate == server.NeverRan {
			return paymentapi.Refunded{}, err
		}
		refunded := paymentapi.Refunded{ID: "refund-" + rand.Text()}
		return refunded, book.Append(ctx, ledger.Entry{Order: ledger.UndoOf(undo.Input.Order), ID: refunded.ID, Cents: -undo.Input.Cents})
	}
}
