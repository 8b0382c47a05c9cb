// Package ledger is where each service writes down what it did: one entry for each effect. A
// ledger accepts a second entry for one order, because it has no constraint and no upsert. So if
// there is no second entry, the guard kept it out.
//
// [Postgres] and [Memory] write as part of a guarded run; [Unguarded] and
// [UnguardedMemory] write at once, and are what the demo's -unsafe uses.
package ledger

import "context"

// An Entry is one effect.
type Entry struct {
	Order string // the request it was made for
	ID    string // its own, told to the caller; random, so that another run makes another one
	Cents int64
}

// UndoOf is the Order of the entry that takes back what was done for an order.
func UndoOf(order string) string { return "undo of " + order }

// A Tally is the effects of one order.
type Tally struct {
	Order string
	IDs   []string // oldest first; one, if all is well
	Cents int64    // their sum
}

// A Ledger keeps entries. It is safe for concurrent use.
type Ledger interface {
	// Append adds e with the effects of the Transactional run of ctx: it is
	// there if and only if the run's answer is.
	Append(ctx context.Context, e Entry) error
	// AppendOnComplete adds e when the Keyed run of ctx completes: it is there
	// if and only if the run's answer is.
	AppendOnComplete(ctx context.Context, e Entry) error
	// AppendAtOnce adds e before it returns, and without a run: it is there
	// whatever becomes of the run's answer.
	AppendAtOnce(ctx context.Context, e Entry) error
	// Tallies returns what is in the ledger, one Tally for each order that is.
	Tallies(ctx context.Context) ([]Tally, error)
}
