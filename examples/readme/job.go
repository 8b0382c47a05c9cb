package readme

import (
	"context"

	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/sdk"
)

// PlaceOrderJob is for jobs, consumers and commands, which nobody gives a key: the key is
// made of the order's id. The store remembers that the order began (pgstore.Store.Intents).
func PlaceOrderJob(ctx context.Context, client *sdk.Client, intents sdk.IntentStore, orderID string, line inventoryapi.Line, cents int) (string, error) {
	ctx, err := sdk.Begin(ctx, intents, "shop", orderID)
	if err != nil {
		return "", err // in a guarded handler sdk.ErrHasParent: its ctx has a key
	}
	return PlaceOrder(ctx, client, line, cents)
}
