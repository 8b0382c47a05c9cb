// Package paymentapi is the contract of the payment service: the one thing
// that it and its callers share.
package paymentapi

import "github.com/fanonce/fanonce/childkey/contract"

var (
	// Charge takes money from a card. It is refused with 402 for [DeclinedCard].
	Charge = contract.Post[Payment, Receipt]("payment", "charge", "/charges").UndoneBy(Refund)
	// Refund undoes Charge.
	Refund = contract.Post[contract.Undo[Payment, Receipt], Refunded]("payment", "refund", "/charges/refund")
)

// DeclinedCard is a card without money.
const DeclinedCard = "4000 0000 0000 0002"

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

// Refunded is money that was given back.
type Refunded struct {
	ID string `json:"id"` // of the refund; "" if there was nothing to give back
}
