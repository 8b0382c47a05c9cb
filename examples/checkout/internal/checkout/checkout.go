// Package checkout is the checkout service: it places an order by calling the
// three others.
package checkout

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventoryapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/notificationapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/server"
)

// Serve serves the contract on mux, guarded.
//
// Keyed: the effects are in other services, which know a repeated call by its
// child key. If this process dies half way, the next call of the same order
// runs all of it again, and the others answer what they answered before.
func Serve(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger, client *sdk.Client) error {
	return server.Handle(mux, guard, checkoutapi.Place, server.Keyed, service{client, writeOnComplete(book)}.place)
}

type service struct {
	client *sdk.Client
	write  writeFunc
}

// place reserves and charges at the same time, and notifies when the charge is
// made. Its ctx carries the parent key of its calls.
func (s service) place(ctx context.Context, order checkoutapi.Order) (checkoutapi.Confirmation, error) {
	fan := s.client.Fanout(ctx)
	hold := sdk.Add(fan, inventoryapi.Reserve, linesOf(order))
	charge := sdk.Add(fan, paymentapi.Charge, paymentOf(order))
	message := sdk.AddFunc(fan, "notify", func(ctx context.Context) (notificationapi.Sent, error) {
		receipt, err := charge.Get(ctx)
		if err != nil {
			return notificationapi.Sent{}, err
		}
		return sdk.Call(ctx, s.client, notificationapi.Send, messageOf(order, receipt))
	})
	if err := fan.Wait(); err != nil {
		// A 503 is not stored, and asks the caller to retry. The next run sends the same child
		// keys, so it does not matter how far this one got.
		return checkoutapi.Confirmation{}, &server.StatusError{Status: http.StatusServiceUnavailable, Err: err}
	}
	held, err1 := hold.Get(ctx)
	receipt, err2 := charge.Get(ctx)
	sent, err3 := message.Get(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		return checkoutapi.Confirmation{}, err
	}
	return s.write(ctx, order, confirm(held, receipt, sent))
}

func confirm(hold inventoryapi.Hold, receipt paymentapi.Receipt, sent notificationapi.Sent) checkoutapi.Confirmation {
	return checkoutapi.Confirmation{
		Placement: "placement-" + rand.Text(), Hold: hold.ID, Receipt: receipt.ID, Message: sent.ID,
	}
}
