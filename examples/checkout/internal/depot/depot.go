// Package depot is a service with two troubles: a parcel that cannot be unpacked, and a printer that
// jams. A watched demo has it, so that a person finds something to settle.
package depot

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/examples/checkout/internal/depotapi"
	"github.com/fanonce/fanonce/examples/checkout/internal/ledger"
	"github.com/fanonce/fanonce/examples/checkout/internal/paymentapi"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server"
)

// A Gift is an order that is packed and then not paid.
type Gift struct {
	Order string `json:"order"`
	Card  string `json:"card"`
}

// Saga packs a gift and charges for it. If the card is declined the parcel has to be unpacked again, which
// the depot refuses: the saga is stuck.
var Saga = saga.MustDefine("gift", 1, func(b *saga.Builder[Gift, struct{}]) {
	parcel := saga.Step(b, depotapi.Pack, saga.Map(b.Input(), func(g Gift) depotapi.Parcel {
		return depotapi.Parcel{Order: g.Order}
	}))
	saga.Step(b, paymentapi.Charge, saga.Map2(b.Input(), parcel.Output(), func(g Gift, _ depotapi.Packed) paymentapi.Payment {
		return paymentapi.Payment{Order: g.Order, Card: g.Card, Cents: 100}
	}))
})

// Serve serves the contract on mux, guarded.
func Serve(mux *http.ServeMux, guard *server.Guard, book ledger.Ledger) error {
	return errors.Join(
		server.Handle(mux, guard, depotapi.Pack, server.Transactional, pack(book)),
		server.Handle(mux, guard, depotapi.Unpack, server.Transactional, unpack),
		// Opaque: a label that came out twice is on two parcels.
		server.Handle(mux, guard, depotapi.Print, server.Opaque, printLabel),
	)
}

func pack(book ledger.Ledger) func(context.Context, depotapi.Parcel) (depotapi.Packed, error) {
	return func(ctx context.Context, in depotapi.Parcel) (depotapi.Packed, error) {
		packed := depotapi.Packed{ID: "parcel-" + rand.Text()}
		return packed, book.Append(ctx, ledger.Entry{Order: in.Order, ID: packed.ID})
	}
}

func unpack(context.Context, contract.Undo[depotapi.Parcel, depotapi.Packed]) (none struct{}, err error) {
	return none, &server.StatusError{Status: http.StatusConflict, Code: "parcel-left", Err: errors.New("the parcel has left")}
}

func printLabel(context.Context, depotapi.Parcel) (none struct{}, err error) {
	return none, errors.New("depot: the printer jams")
}
