package readme

import (
	"context"

	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/examples/readme/paymentapi"
	"github.com/fanonce/fanonce/sdk"
)

// PlaceOrder takes effect once per service and request. ctx carries the request's key: it is
// that of a guarded handler, or PlaceOrderJob's. After an error that is sdk.Resumable, or a
// crash, the same request runs it again: on this machine or another.
func PlaceOrder(ctx context.Context, client *sdk.Client, line inventoryapi.Line, cents int) (string, error) {
	fan := client.Fanout(ctx)
	hold := sdk.Go(fan, inventoryapi.Reserve, line)
	receipt := sdk.Go(fan, paymentapi.Charge, paymentapi.Payment{Cents: cents})
	if err := fan.Wait(); err != nil {
		return "", err // names each call, and whether it took effect
	}
	h, _ := hold.Get(ctx) // Wait returned nil: both are there
	r, _ := receipt.Get(ctx)
	return h.ID + "/" + r.ID, nil
}
