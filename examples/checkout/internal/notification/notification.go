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
	return server.Handle(mux, guard, notificationapi.Send, server.Transactional, send(book))
}

// ServeUnguarded serves the contract on mux without a guard.
func ServeUnguarded(mux *http.ServeMux, book ledger.Ledger) error {
	return unguarded.Handle(mux, notificationapi.Send, send(book))
}

// send puts a message into the outbox once for each time that it runs.
func send(book ledger.Ledger) func(context.Context, notificationapi.Message) (notificationapi.Sent, error) {
	return func(ctx context.Context, in notificationapi.Message) (notificationapi.Sent, error) {
		sent := notificationapi.Sent{ID: "message-" + rand.Text()}
		return sent, book.Append(ctx, ledger.Entry{Order: in.Order, ID: sent.ID})
	}
}
