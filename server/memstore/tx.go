package memstore

import (
	"cmp"
	"context"
	"errors"

	"github.com/fanonce/fanonce/server/store"
)

var (
	// ErrNoTx means that ctx carries no transaction of a memstore, for example
	// outside a Transactional run or a completion hook.
	ErrNoTx = errors.New("memstore: no transaction in this context")
	// ErrTxDone means that the transaction was committed or rolled back before.
	ErrTxDone = errors.New("memstore: transaction has ended")
)

// tx is the guard's side of a transaction. The store's mutex guards every field
// except store and ended, because waiters read each other's fields.
type tx struct {
	store *Store
	ended chan struct{} // closed when the locks are given up

	done    bool  // committed or rolled back
	failure error // the failure that prevents the commit: only Rollback is left
	refusal error // the error with which the commit will be refused
	writes  []func()
	pending map[store.ID]store.Record // the records after its cancels
	wants   []store.ID                // the records that it waits for, while it waits,
	waiting *tx                       // and the transaction that must end first
}

var _ store.Tx = (*tx)(nil)

// Begin implements [store.TxStore]. The transaction holds no record until it
// cancels one; the caller must still end it.
func (s *Store) Begin(ctx context.Context) (store.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &tx{store: s, ended: make(chan struct{}), pending: make(map[store.ID]store.Record)}, nil
}

// Cancel locks the record even if it changes nothing: its caller's conclusion
// from the record must hold until the transaction ends.
func (t *tx) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	s := t.store
	if err := t.acquire(ctx, req.ID); err != nil {
		return store.Record{}, false, toInProgress(err)
	}
	defer s.mu.Unlock()
	s.locks[req.ID] = t
	now := s.clock()
	before, ok := t.find(req.ID)
	if after, changed := cancel(before, ok, req, now); changed {
		t.pending[req.ID] = after
	}
	if !ok {
		return store.Record{}, false, nil
	}
	return show(before, now), true, nil
}

// Settle commits: the buffered writes, the cancels and the settlement become
// visible together, because they happen under the store's lock.
func (t *tx) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	defer t.rollback() // after a commit it does nothing
	if err := end.Check(); err != nil {
		return err
	}
	if err := t.acquire(ctx, o.ID); err != nil {
		return err
	}
	s := t.store
	defer s.mu.Unlock()
	defer t.end() // also if a write panics
	r, ok := t.find(o.ID)
	if !ok {
		return store.ErrLeaseLost
	}
	r, err := settle(r, o, end, s.clock())
	if err == nil {
		err = t.refusal
	}
	if err != nil {
		return err
	}
	t.pending[o.ID] = r
	t.apply()
	s.noteDeadLetter(o.ID, end)
	return nil
}

// Commit implements [store.Tx]. It does not block.
func (t *tx) Commit(ctx context.Context) error {
	defer t.rollback() // after a commit it does nothing
	if err := ctx.Err(); err != nil {
		return err
	}
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if err := cmp.Or(t.usable(), t.refusal); err != nil {
		return err
	}
	t.apply()
	return nil
}

// apply makes the writes and records of the transaction visible, and ends it.
func (t *tx) apply() {
	for _, write := range t.writes {
		write()
	}
	for _, r := range t.pending {
		t.store.put(r)
	}
	t.end()
}

// acquire locks the store for t, if t can still make calls.
func (t *tx) acquire(ctx context.Context, id store.ID) error {
	if err := t.store.acquire(ctx, t, id); err != nil {
		return err
	}
	if err := t.usable(); err != nil {
		t.store.mu.Unlock()
		return err
	}
	return nil
}

func (t *tx) usable() error {
	switch {
	case t.done:
		return ErrTxDone
	}
	return t.failure
}

// find returns the record as the transaction sees it.
func (t *tx) find(id store.ID) (store.Record, bool) {
	if r, ok := t.pending[id]; ok {
		return r, true
	}
	r, ok := t.store.records[id]
	return r, ok
}

// Rollback implements [store.Tx]; it does not block, and never fails.
func (t *tx) Rollback(context.Context) error {
	t.rollback()
	return nil
}

func (t *tx) rollback() {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.end()
}

// Err implements [store.Tx].
func (t *tx) Err() error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.failure
}

// end releases the locks and wakes the transactions that wait for them. A
// second end does nothing.
func (t *tx) end() {
	t.done = true
	t.release()
}

// fail makes t a transaction that cannot be committed; the first failure
// counts. It releases t's locks at once, so that others go on even if t's
// handler returns late.
func (t *tx) fail(failure error) {
	if t.failure == nil {
		t.failure = failure
	}
	t.release()
}

func (t *tx) release() {
	for id, holder := range t.store.locks {
		if holder == t {
			delete(t.store.locks, id)
		}
	}
	select {
	case <-t.ended:
	default:
		close(t.ended)
	}
}
