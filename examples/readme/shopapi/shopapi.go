// Package shopapi has the operations that callers and callees share.
package shopapi

import "github.com/fanonce/fanonce/childkey/contract"

type (
	Line    struct{ SKU string }
	Hold    struct{ ID int64 }
	Payment struct{ Cents int }
	Receipt struct{ ID string }
	Order   struct {
		Line    Line
		Payment Payment
	}
)

var (
	Place   = contract.Post[Order, Receipt]("shop", "place", "/orders")
	Reserve = contract.Post[Line, Hold]("inventory", "reserve", "/reservations").UndoneBy(Release)
	Release = contract.Post[contract.Undo[Line, Hold], struct{}]("inventory", "release", "/releases")
	Charge  = contract.Post[Payment, Receipt]("payment", "charge", "/charges").UndoneBy(Refund)
	Refund  = contract.Post[contract.Undo[Payment, Receipt], struct{}]("payment", "refund", "/refunds")
)
