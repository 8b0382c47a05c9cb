// Package checkoutapi is the contract of the checkout service: the one thing
// that it and its callers share.
package checkoutapi

import (
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/checkout/internal/inventoryapi"
)

// Place places an order: it reserves, charges and notifies.
var Place = contract.Post[Order, Confirmation]("checkout", "place", "/orders")

// An Order is what a customer buys.
type Order struct {
	ID    string              `json:"id"`
	Card  string              `json:"card"`
	Items []inventoryapi.Item `json:"items"`
}

// Cents returns what the order costs.
func (o Order) Cents() int64 {
	var sum int64
	for _, item := range o.Items {
		sum += int64(item.Count) * item.Cents
	}
	return sum
}

// A Confirmation names every effect of a placed order.
type Confirmation struct {
	Placement string `json:"placement"` // the order's own row
	Hold      string `json:"hold"`
	Receipt   string `json:"receipt"`
	Message   string `json:"message"`
}
