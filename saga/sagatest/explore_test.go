package sagatest_test

import (
	"testing"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/sagatest"
)

type (
	order   struct{ SKU string }
	made    struct{ ID string }
	booking struct{ Hold, Charge string }
	nothing = struct{}
)

var (
	reserve = contract.Post[order, made]("inventory", "reserve", "/reservations")
	release = contract.Post[contract.Undo[order, made], nothing]("inventory", "release", "/reservations/release")
	charge  = contract.Post[order, made]("payment", "charge", "/charges")
	refund  = contract.Post[contract.Undo[order, made], nothing]("payment", "refund", "/charges/refund")
	book    = contract.Post[booking, made]("shipping", "book", "/parcels")
	unbook  = contract.Post[contract.Undo[booking, made], nothing]("shipping", "unbook", "/parcels/unbook")
	notify  = contract.Post[made, nothing]("mail", "receipt", "/receipts")
)

func both(h, c made) booking { return booking{h.ID, c.ID} }

// Two beside each other, a pivot, and one that is retriable.
var checkout = saga.MustDefine("checkout", 1, func(b *saga.Builder[order, made]) {
	held := saga.Step(b, reserve, b.Input()).Undo(release)
	paid := saga.Step(b, charge, b.Input()).Undo(refund)
	sent := saga.Step(b, book, saga.Map2(held.Output(), paid.Output(), both)).Pivot()
	saga.Step(b, notify, sent.Output()).Retriable()
	saga.Return(b, sent.Output())
})

func TestExplore(t *testing.T) {
	t.Parallel()
	sagatest.Explore(t, checkout, order{"a-1"}, sagatest.Answer("shipping.book", made{"p-1"}))
}
