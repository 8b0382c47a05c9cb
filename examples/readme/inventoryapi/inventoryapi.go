// Package inventoryapi is what the inventory service and its callers share.
package inventoryapi

import "github.com/fanonce/fanonce/childkey/contract"

type (
	Line struct {
		SKU   string `json:"sku"`
		Count int    `json:"count"`
	}
	Hold struct {
		ID string `json:"id"`
	}
)

var (
	Reserve = contract.Post[Line, Hold]("inventory", "reserve", "/reservations")
	// Release undoes Reserve: it gets the Line and, where it is known, the Hold.
	Release = contract.Post[contract.Undo[Line, Hold], struct{}]("inventory", "release", "/reservations/release")
)
