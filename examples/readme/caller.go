package readme

import (
	"context"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/examples/readme/paymentapi"
	"github.com/fanonce/fanonce/sdk"
)

// PlaceOrder takes effect once per service. After an error, a crash or a
// timeout, on this machine or another: call it again.
func PlaceOrder(ctx context.Context, client *sdk.Client, orderID string, line inventoryapi.Line, cents int) (string, error) {
	parent, err := childkey.FromParts("shop", orderID) // or the guarded handler's ctx, which has one
	if err != nil {
		return "", err
	}
	fan := client.Fanout(childkey.NewContext(ctx, parent))
	hold := sdk.Go(fan, inventoryapi.Reserve, line)
	receipt := sdk.Go(fan, paymentapi.Charge, paymentapi.Payment{Cents: cents})
	if err := fan.Wait(); err != nil {
		return "", err // names each call, and whether it took effect
	}
	h, _ := hold.Get(ctx) // Wait returned nil: both are there
	r, _ := receipt.Get(ctx)
	return h.ID + "/" + r.ID, nil
}
