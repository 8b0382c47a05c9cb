// Package paymentapi is the contract of the payment service: the one thing
// that it and its callers share.
package paymentapi

import "github.com/fanonce/fanonce/childkey/contract"

// Charge takes money from a card.
var Charge = contract.Post[Payment, Receipt]("payment", "charge", "/charges")

// A Payment is what is charged, for one order.
type Payment struct {
	Order string `json:"order"`
	Card  string `json:"card"`
	Cents int64  `json:"cents"`
}

// A Receipt proves a charge.
type Receipt struct {
	ID string `json:"id"`
}
