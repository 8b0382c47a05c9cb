package memstore

import (
	"context"
	"errors"

	"github.com/fanonce/fanonce/server"
)

var (
	// ErrNoTx means that ctx carries no transaction of a memstore, as outside a
	// Transactional run or a completion hook.
	ErrNoTx = errors.New("memstore: no transaction in this context")
	// ErrTxDone means that the transaction was committed or rolled back before.
	ErrTxDone = errors.New("memstore: transaction has ended")
)

// tx is a transaction as the guard drives it. The store's mutex guards every
// field but store and ended, because waiters look into each other.
type tx struct {
	store *Store
	ended chan struct{} // closed when the locks are given up

	done    bool  // committed or rolled back
	failure error // what prevents the commit: only Rollback is left
	refusal error // what the commit will be refused with
	writes  []func()
	pending map[server.ID]server.Record // what its cancels will make of the records
	wants   []server.ID                 // what it waits for, while it does,
	waiting *tx                         // and whose end
}

var _ server.Tx = (*tx)(nil)

// Begin implements [server.TxStore]. The transaction holds no record until it
// cancels one; end it all the same.
func (s *Store) Begin(ctx context.Context) (server.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return &tx{store: s, ended: make(chan struct{}), pending: make(map[server.ID]server.Record)}, nil
}

// Cancel locks the record even where it changes nothing: the verdict that its
// caller draws from the record must hold until the transaction ends.
func (t *tx) Cancel(ctx context.Context, req server.CancelRequest) (server.Record, bool, error) {
	if err := checkCancel(req); err != nil {
		return server.Record{}, false, err
	}
	s := t.store
	if err := t.acquire(ctx, req.ID); err != nil {
		return server.Record{}, false, err
	}
	defer s.mu.Unlock()
	s.locks[req.ID] = t
	now := s.clock()
	before, ok := t.find(req.ID)
	if after, changed := cancel(before, ok, req, now); changed {
		t.pending[req.ID] = after
	}
	if !ok {
		return server.Record{}, false, nil
	}
	return shown(before, now), true, nil
}

// Settle commits: the buffered writes, the cancels and the settlement become
// visible together, since all of them happen under the store's lock.
func (t *tx) Settle(ctx context.Context, o server.Owner, end server.Settlement) error {
	defer t.rollback() // after a commit it does nothing
	if err := checkSettlement(end); err != nil {
		return err
	}
	if err := t.acquire(ctx, o.ID); err != nil {
		return err
	}
	s := t.store
	defer s.mu.Unlock()
	defer t.end()
	r, ok := t.find(o.ID)
	if !ok {
		return server.ErrLeaseLost
	}
	r, err := settle(r, o, end, s.clock())
	if err == nil {
		err = t.refusal
	}
	if err != nil {
		return err
	}
	t.pending[o.ID] = r
	for _, write := range t.writes {
		write()
	}
	for _, r := range t.pending {
		s.put(r)
	}
	return nil
}

// acquire locks the store for t, if t can still do anything.
func (t *tx) acquire(ctx context.Context, id server.ID) error {
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
func (t *tx) find(id server.ID) (server.Record, bool) {
	if r, ok := t.pending[id]; ok {
		return r, true
	}
	r, ok := t.store.records[id]
	return r, ok
}

// Rollback implements [server.Tx]; it does not block, and never fails.
func (t *tx) Rollback(context.Context) error {
	t.rollback()
	return nil
}

func (t *tx) rollback() {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	t.end()
}

// Err implements [server.Tx].
func (t *tx) Err() error {
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	return t.failure
}

// end gives up the locks and wakes who waits for them. A second end does
// nothing.
func (t *tx) end() {
	t.done = true
	t.release()
}

// fail makes t one that cannot be committed; the first failure counts. It gives up
// its locks at once, so that the others go on though t's handler may take its time
// to return.
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
