package memstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/server/store"
)

// NewContext implements [store.Tx], for [Tx].
func (t *tx) NewContext(ctx context.Context) context.Context {
	return store.NewTxContext(ctx, &Transaction{tx: t})
}

// A Transaction is a run's view of its transaction. The guard, which began the
// transaction, ends it. A ctx without a transaction has the nil Transaction:
// its methods return [ErrNoTx].
//
// It is safe for concurrent use.
type Transaction struct{ tx *tx }

// Tx returns the transaction that ctx carries, or nil, which is safe to use.
func Tx(ctx context.Context) *Transaction {
	t, _ := store.TxFromContext(ctx).(*Transaction)
	return t
}

// Do remembers write, and runs it when the transaction commits, after earlier
// writes. That is the instant at which the run's answer is recorded. write
// never runs if the transaction is rolled back or the run has lost its lease.
//
// write runs under the store's lock, so it must only change memory. A write
// that calls the store deadlocks. A write that panics leaves its effects so far
// without the record of the run.
//
// Do returns [ErrNoTx] on a nil Transaction, [ErrTxDone] once the transaction
// has ended, and the failure after [Transaction.Doom] or [Transaction.Fail]. It does
// not block.
func (t *Transaction) Do(write func()) error {
	if t == nil {
		return ErrNoTx
	}
	t.tx.store.mu.Lock()
	defer t.tx.store.mu.Unlock()
	if err := t.tx.usable(); err != nil {
		return err
	}
	t.tx.writes = append(t.tx.writes, write)
	return nil
}

// Doom makes the transaction fail like the victim of a serialization failure or
// deadlock. Every later call in the transaction returns [store.ErrConflict],
// and the guard runs the handler again. With Doom a test can see its handler
// run twice. It is Fail([store.ErrConflict]).
func (t *Transaction) Doom() error { return t.Fail(store.ErrConflict) }

// Fail makes the transaction fail with failure, as a database does, for tests
// of handlers. The failure is [store.ErrConflict], [store.ErrTxLost],
// [store.ErrTxAbandoned], a [*store.TxError] or another error, with the meanings
// that [store.Tx] gives them. Every later call in the transaction returns it; the first failure
// counts. Only the commit returns a TxError with Commit set.
//
// Fail returns [ErrNoTx] on a nil Transaction, [ErrTxDone] once the transaction has
// ended, and [ErrArgument] for a nil failure. It does not block.
func (t *Transaction) Fail(failure error) error {
	if t == nil {
		return ErrNoTx
	}
	if failure == nil {
		return fmt.Errorf("%w: a nil failure", ErrArgument)
	}
	t.tx.store.mu.Lock()
	defer t.tx.store.mu.Unlock()
	if t.tx.done {
		return ErrTxDone
	}
	var refused *store.TxError
	if errors.As(failure, &refused) && refused.Commit {
		t.tx.refusal = failure
		return nil
	}
	t.tx.fail(failure)
	return nil
}
