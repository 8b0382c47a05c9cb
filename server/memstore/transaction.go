package memstore

import "context"

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
// has ended and [server.ErrConflict] after [Transaction.Doom]. It does not
// block.
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
// serialization failure or deadlock: all that follows in it returns
// [server.ErrConflict], and the guard runs the handler again. It lets a test
// see its handler run twice.
//
// It returns [ErrNoTx] on a nil Transaction and [ErrTxDone] once the
// transaction has ended.
func (t *Transaction) Doom() error {
	if t == nil {
		return ErrNoTx
	}
	t.tx.store.mu.Lock()
	defer t.tx.store.mu.Unlock()
	if t.tx.done {
		return ErrTxDone
	}
	t.tx.doom()
	return nil
}
