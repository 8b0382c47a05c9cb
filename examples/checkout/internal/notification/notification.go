// Package notification is the notification service: it tells customers.
package notification

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/notificationapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/unguarded"
	"github.com/fanonce/fanonce/server"
)

// Serve serves the contract on mux, guarded.
func Serve(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger) error {
	return server.Handle(mux, guard, notificationapi.Send, server.Transactional, send(book.Append))
}

// ServeApart serves the contract on mux. guard has its keys in another store than the ledger's, so the route is
// Opaque: nothing but guard keeps a second message out.
func ServeApart(mux *http.ServeMux, guard, _ *server.Guard, book ledger.Ledger) error {
	return server.Handle(mux, guard, notificationapi.Send, server.Opaque, send(book.AppendAtOnce))
}

// ServeUnguarded serves the contract on mux without a guard.
func ServeUnguarded(mux *http.ServeMux, book ledger.Ledger) error {
	return unguarded.Handle(mux, notificationapi.Send, send(book.Append))
}

// send records a message with appendEntry, once for each time that it runs.
func send(appendEntry func(context.Context, ledger.Entry) error) func(context.Context, notificationapi.Message) (notificationapi.Sent, error) {
	return func(ctx context.Context, in notificationapi.Message) (notificationapi.Sent, error) {
		sent := notificationapi.Sent{ID: "message-" + rand.Text()}
		return sent, appendEntry(ctx, ledger.Entry{Order: in.Order, ID: sent.ID})
	}
}
