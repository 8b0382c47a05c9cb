// Package paymentapi is what the payment service and its callers share.
package paymentapi

import "github.com/fanonce/fanonce/childkey/contract"

type (
	Payment struct {
		Cents int `json:"cents"`
	}
	Receipt struct {
		ID string `json:"id"`
	}
)

var (
	Charge = contract.Post[Payment, Receipt]("payment", "charge", "/charges")
	// Refund undoes Charge.
	Refund = contract.Post[contract.Undo[Payment, Receipt], struct{}]("payment", "refund", "/charges/refund")
)
