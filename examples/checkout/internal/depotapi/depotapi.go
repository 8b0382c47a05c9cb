// Package depotapi is the contract of the depot, the service with the two
// troubles that a person has to settle.
package depotapi

import "github.com/fanonce/fanonce/childkey/contract"

var (
	// Pack puts an order into a parcel.
	Pack = contract.Post[Parcel, Packed]("depot", "pack", "/parcels").UndoneBy(Unpack)
	// Unpack undoes Pack. It is refused with 409: the parcel has left.
	Unpack = contract.Post[contract.Undo[Parcel, Packed], struct{}]("depot", "unpack", "/parcels/unpack")
	// Print prints a label, by a printer that knows no keys. The printer jams, and nobody knows whether the
	// label came out.
	Print = contract.Post[Parcel, struct{}]("depot", "print", "/labels")
)

// A Parcel is what is packed, for one order.
type Parcel struct {
	Order string `json:"order"`
}

// Packed is a parcel that is ready.
type Packed struct {
	ID string `json:"id"`
}
