package checkout

import (
	"context"
	"net/http"

	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventoryapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/notificationapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/unguarded"
)

// URLs are the addresses of the services that checkout calls.
type URLs struct{ Inventory, Payment, Notification string }

// ServeUnguarded serves the contract on mux without a guard, and calls the
// others without keys.
func ServeUnguarded(mux *http.ServeMux, book ledger.Ledger, urls URLs) error {
	return unguarded.Handle(mux, checkoutapi.Place, func(ctx context.Context, order checkoutapi.Order) (c checkoutapi.Confirmation, err error) {
		hold, err := unguarded.Call(ctx, urls.Inventory, inventoryapi.Reserve, linesOf(order))
		if err != nil {
			return c, err
		}
		receipt, err := unguarded.Call(ctx, urls.Payment, paymentapi.Charge, paymentOf(order))
		if err != nil {
			return c, err
		}
		sent, err := unguarded.Call(ctx, urls.Notification, notificationapi.Send, messageOf(order, receipt))
		if err != nil {
			return c, err
		}
		c = confirm(hold, receipt, sent)
		return c, book.AppendOnComplete(ctx, entryOf(order, c))
	})
}
