package readme

import (
	"context"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/readme/inventoryapi"
	"github.com/fanonce/fanonce/examples/readme/paymentapi"
	"github.com/fanonce/fanonce/saga"
)

type Order struct {
	Line    inventoryapi.Line
	Payment paymentapi.Payment
}

// Checkout reserves and charges at the same time. If one of them fails, the other
// is undone: also if it got lost, and by another process if this one is gone.
var Checkout = saga.MustDefine("checkout", 1, func(b *saga.Builder[Order, string]) {
	line := saga.Map(b.Input(), func(o Order) inventoryapi.Line { return o.Line })
	payment := saga.Map(b.Input(), func(o Order) paymentapi.Payment { return o.Payment })
	hold := saga.Step(b, inventoryapi.Reserve, line).Undo(inventoryapi.Release)
	charge := saga.Step(b, paymentapi.Charge, payment).Undo(paymentapi.Refund)
	saga.Return(b, saga.Map2(hold.Output(), charge.Output(), func(h inventoryapi.Hold, r paymentapi.Receipt) string {
		return h.ID + "/" + r.ID
	}))
})

// RunCheckout runs the saga, attaches to it, or returns what came of it before.
// A guarded handler passes the key that its ctx carries (childkey.FromContext).
func RunCheckout(ctx context.Context, engine *saga.Engine, key childkey.Key, order Order) (string, error) {
	return Checkout.Run(ctx, engine, key, order) // errors.Is(err, saga.ErrCompensated): all is undone
}
