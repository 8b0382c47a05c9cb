package checkout

import (
	"github.com/fanonce/fanonce/examples/checkout/internal/checkoutapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventoryapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/notificationapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
)

// The bodies of the calls. They follow from the order and from stored answers, so a repeated
// call has the same body.

func linesOf(o checkoutapi.Order) inventoryapi.Lines {
	return inventoryapi.Lines{Order: o.ID, Items: o.Items}
}

func paymentOf(o checkoutapi.Order) paymentapi.Payment {
	return paymentapi.Payment{Order: o.ID, Card: o.Card, Cents: o.Cents()}
}

func messageOf(o checkoutapi.Order, receipt paymentapi.Receipt) notificationapi.Message {
	return notificationapi.Message{Order: o.ID, Receipt: receipt.ID}
}

func entryOf(o checkoutapi.Order, c checkoutapi.Confirmation) ledger.Entry {
	return ledger.Entry{Order: o.ID, ID: c.Placement, Cents: o.Cents()}
}
