package inventoryapi

import "github.com/fanonce/fanonce/childkey/contract"

// Release undoes Reserve.
var Release = contract.Post[contract.Undo[Line, Hold], struct{}]("inventory", "release", "/reservations/release")
