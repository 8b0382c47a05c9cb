package paymentapi

import "github.com/fanonce/fanonce/childkey/contract"

// Refund undoes Charge.
var Refund = contract.Post[contract.Undo[Payment, Receipt], struct{}]("payment", "refund", "/charges/refund")
