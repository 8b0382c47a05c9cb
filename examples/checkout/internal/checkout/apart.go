package checkout

import (
	"context"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
)

// A writeFunc writes the order's own row, and returns the confirmation that names it.
type writeFunc func(context.Context, checkoutapi.Order, checkoutapi.Confirmation) (checkoutapi.Confirmation, error)

// writeOnComplete writes the row with the answer: the guard's keys are in the same database.
func writeOnComplete(book ledger.Ledger) writeFunc {
	return func(ctx context.Context, order checkoutapi.Order, c checkoutapi.Confirmation) (checkoutapi.Confirmation, error) {
		return c, book.AppendOnComplete(ctx, entryOf(order, c))
	}
}

// ServeApart serves the contract on mux. guard has its keys in another store than the ledger's, and no commit has
// both the answer and the row. So the row is one more effect behind a child key: rows has its keys beside the ledger,
// and writes the row once for that key.
func ServeApart(mux *http.ServeMux, guard, rows *server.Guard, book ledger.Ledger, client *sdk.Client) error {
	return server.Handle(mux, guard, checkoutapi.Place, server.Keyed, service{client, writeOnce(rows, book)}.place)
}

// writeOnce writes the row once for the parent key of ctx. A later run gets the confirmation of the first row.
func writeOnce(rows *server.Guard, book ledger.Ledger) writeFunc {
	task := server.Task{Name: "write-order", Scope: "checkout", Effect: server.Transactional}
	return func(ctx context.Context, order checkoutapi.Order, c checkoutapi.Confirmation) (checkoutapi.Confirmation, error) {
		parent, _ := childkey.FromContext(ctx) // there is one in every guarded run
		key, err := childkey.Derive(parent, "checkout", "write-order")
		if err != nil {
			return checkoutapi.Confirmation{}, err
		}
		written, _, err := server.Do(ctx, rows, task, key, order, func(ctx context.Context, order checkoutapi.Order) (checkoutapi.Confirmation, error) {
			return c, book.Append(ctx, entryOf(order, c))
		})
		if err != nil { // not stored: the next run asks rows again
			return checkoutapi.Confirmation{}, &server.StatusError{Status: http.StatusServiceUnavailable, Err: err}
		}
		return written, nil
	}
}
