// Package inventoryapi is the contract of the inventory service: the one thing
// that it and its callers share.
package inventoryapi

import "github.com/fanonce/fanonce/childkey/contract"

var (
	// Reserve puts the lines of an order aside.
	Reserve = contract.Post[Lines, Hold]("inventory", "reserve", "/reservations").UndoneBy(Release)
	// Release undoes Reserve.
	Release = contract.Post[contract.Undo[Lines, Hold], Released]("inventory", "release", "/reservations/release")
)

// Lines are what is reserved, for one order.
type Lines struct {
	Order string `json:"order"`
	Items []Item `json:"items"`
}

// An Item is one line.
type Item struct {
	SKU   string `json:"sku"`
	Count int    `json:"count"`
	Cents int64  `json:"cents"` // price of one
}

// A Hold is a reservation.
type Hold struct {
	ID string `json:"id"`
}

// Released is a reservation that is no more.
type Released struct {
	ID string `json:"id"` // of the release; "" if there was nothing to release
}
