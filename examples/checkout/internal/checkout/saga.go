package checkout

import (
	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventoryapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/notificationapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/saga"
)

// Saga places an order as place does, and takes back what it did if the payment is refused: the
// goods that were put aside go back on the shelf. A refused call needs no undo.
var Saga = saga.MustDefine("checkout", 1, func(b *saga.Builder[checkoutapi.Order, struct{}]) {
	hold := saga.Step(b, inventoryapi.Reserve, saga.Map(b.Input(), linesOf))
	charge := saga.Step(b, paymentapi.Charge, saga.Map(b.Input(), paymentOf))
	// It cannot be undone, and comes last: when it is sent, all is decided.
	saga.Step(b, notificationapi.Send, saga.Map2(b.Input(), charge.Output(), messageOf)).After(hold).Pivot()
})
