// Package inventory is the inventory service: it puts goods aside.
package inventory

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventoryapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/unguarded"
	"github.com/fanonce/fanonce/server"
)

// Serve serves the contract on mux, guarded.
func Serve(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger) error {
	return errors.Join(
		server.Handle(mux, guard, inventoryapi.Reserve, server.Transactional, reserve(book)),
		server.Handle(mux, guard, inventoryapi.Release, server.Transactional, release(book)),
	)
}

// ServeUnguarded serves the contract on mux without a guard.
func ServeUnguarded(mux *http.ServeMux, book ledger.Ledger) error {
	return unguarded.Handle(mux, inventoryapi.Reserve, reserve(book))
}

// reserve reserves once for each time that it runs.
func reserve(book ledger.Ledger) func(context.Context, inventoryapi.Lines) (inventoryapi.Hold, error) {
	return func(ctx context.Context, in inventoryapi.Lines) (inventoryapi.Hold, error) {
		hold := inventoryapi.Hold{ID: "hold-" + rand.Text()}
		return hold, book.Append(ctx, ledger.Entry{Order: in.Order, ID: hold.ID})
	}
}

// release takes a reservation back, if there is one. The barrier knows, and keeps a
// reservation that arrives later from being made.
func release(book ledger.Ledger) func(context.Context, contract.Undo[inventoryapi.Lines, inventoryapi.Hold]) (inventoryapi.Released, error) {
	return func(ctx context.Context, undo contract.Undo[inventoryapi.Lines, inventoryapi.Hold]) (inventoryapi.Released, error) {
		fate, err := server.Barrier(ctx)
		if err != nil || fate == server.NeverRan {
			return inventoryapi.Released{}, err
		}
		released := inventoryapi.Released{ID: "release-" + rand.Text()}
		return released, book.Append(ctx, ledger.Entry{Order: ledger.UndoOf(undo.Input.Order), ID: released.ID})
	}
}
