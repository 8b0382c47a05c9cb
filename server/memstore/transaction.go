package memstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/server"
)

type contextKey struct{}

// NewContext implements [server.Tx], for [Tx].
func (t *tx) NewContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, contextKey{}, &Transaction{tx: t})
}

// A Transaction is what a run sees of the transaction it runs in. Who began it
// ends it. The nil Transaction is that of a ctx without one: its methods return
// [ErrNoTx].
//
// It is safe for concurrent use.
type Transaction struct{ tx *tx }

// Tx returns the transaction that ctx carries, or nil, which is safe to use.
func Tx(ctx context.Context) *Transaction {
	t, _ := ctx.Value(contextKey{}).(*Transaction)
	return t
}

// Do remembers write, and runs it when the transaction commits: after those
// remembered before, in the instant in which the run's answer is recorded. It
// never runs if the transaction is rolled back or the run has lost its lease.
//
// write runs under the store's lock: let it only change memory. A write that
// calls the store deadlocks, and one that panics leaves its effects so far
// behind without the record of the run.
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

// Doom makes the transaction fail as a database fails the victim of a
// serialization failure or deadlock: everything that follows in it returns
// [server.ErrConflict], and the guard runs the handler again. With it a test can
// see its handler run twice. It is Fail([server.ErrConflict]).
func (t *Transaction) Doom() error { return t.Fail(server.ErrConflict) }

// Fail makes the transaction fail with failure, as a database does, for tests of
// handlers. The failure is [server.ErrConflict], [server.ErrTxLost], a
// [*server.TxError] or another error, with the meanings that [server.Tx] gives them.
// All that follows in the transaction returns it; the first failure counts. A
// TxError with Commit set is returned by the commit alone.
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
	var refused *server.TxError
	if errors.As(failure, &refused) && refused.Commit {
		t.tx.refusal = failure
		return nil
	}
	t.tx.fail(failure)
	return nil
}
