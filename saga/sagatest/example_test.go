package sagatest_test

import (
	"testing"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagatest"
)

var (
	charge = contract.Post[int, string]("payment", "charge", "/charges")
	refund = contract.Post[contract.Undo[int, string], struct{}]("payment", "refund", "/charges/refund")
	ship   = contract.Post[string, struct{}]("shipping", "ship", "/parcels")
)

var order = saga.MustDefine("order", 1, func(b *saga.Builder[int, struct{}]) {
	paid := saga.Step(b, charge, b.Input()).Undo(refund)
	saga.Step(b, ship, paid.Output()).Pivot()
})

// A saga's own test is one line.
func TestExplore_asUsersCallIt(t *testing.T) {
	t.Parallel()
	sagatest.Explore(t, order, 100, sagatest.Answer("payment.charge", "c-1"))
}

func ExampleExplore() {
	// In a test file:
	_ = func(t *testing.T) {
		sagatest.Explore(t, order, 100, sagatest.Answer("payment.charge", "c-1"))
	}
	// Output:
}

func ExampleTestJournal() {
	// In a test file of a journal:
	_ = func(t *testing.T) {
		sagatest.TestJournal(t, func(testing.TB) journal.Journal { return memjournal.New() })
	}
	// Output:
}
