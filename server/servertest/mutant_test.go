package servertest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A mutant is a memstore with a defect: each field that is set replaces a
// method.
type mutant struct {
	*memstore.Store
	skew   atomic.Int64              // the time by which the store's clock is ahead
	still  atomic.Pointer[time.Time] // the time of a clock that stands still; nil: it goes on
	marred counts                    // the effects, and their defects

	claim      func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error)
	takeOver   func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error)
	quarantine func(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error)
	renew      func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error)
	settle     func(ctx context.Context, o store.Owner, s store.Settlement) error
	cancel     func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error)
	sweep      func(ctx context.Context, limit int) (int, error)
	stats      func(ctx context.Context) (store.Stats, error)
	begin      func(ctx context.Context) (store.Tx, error)
	resolve    func(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error)
	forget     func(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error)
	deferral   func(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error)
	watch      func(id store.ID, fence int64) (ended <-chan struct{}, stop func())
	read       func(r *mutantReader)             // changes the reader
	show       func(r store.Record) store.Record // changes every record that a method returns
}

func newMutant(tb testing.TB) *mutant {
	m := &mutant{marred: counts{n: make(map[store.ID]int)}}
	s, err := memstore.NewWith(memstore.Config{
		Now: func() time.Time {
			if at := m.still.Load(); at != nil {
				return *at
			}
			return time.Now().Add(time.Duration(m.skew.Load()))
		},
		LockTimeout: time.Second,
	})
	if err != nil {
		tb.Fatal(err)
	}
	m.Store = s
	m.show = func(r store.Record) store.Record { return r }
	return m
}

// ahead makes a call with the store's clock an hour and more ahead.
func (m *mutant) ahead(call func()) {
	m.skew.Add(int64(2 * keep))
	defer m.skew.Add(-int64(2 * keep))
	call()
}

func (m *mutant) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	do := m.claim
	if do == nil {
		do = m.Store.Claim
	}
	r, ok, err := do(ctx, req)
	return m.show(r), ok, err
}

func (m *mutant) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
	do := m.takeOver
	if do == nil {
		do = m.Store.TakeOver
	}
	r, ok, err := do(ctx, req, from)
	return m.show(r), ok, err
}

func (m *mutant) Quarantine(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
	do := m.quarantine
	if do == nil {
		do = m.Store.Quarantine
	}
	r, ok, err := do(ctx, req)
	return m.show(r), ok, err
}

func (m *mutant) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
	if m.renew != nil {
		return m.renew(ctx, owners, lease)
	}
	return m.Store.Renew(ctx, owners, lease)
}

func (m *mutant) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	if m.settle != nil {
		return m.settle(ctx, o, s)
	}
	return m.Store.Settle(ctx, o, s)
}

func (m *mutant) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	do := m.cancel
	if do == nil {
		do = m.Store.Cancel
	}
	r, ok, err := do(ctx, req)
	return m.show(r), ok, err
}

func (m *mutant) Read(ctx context.Context, id store.ID) (store.Record, error) {
	r, err := m.Store.Read(ctx, id)
	return m.show(r), err
}

func (m *mutant) Sweep(ctx context.Context, limit int) (int, error) {
	if m.sweep != nil {
		return m.sweep(ctx, limit)
	}
	return m.Store.Sweep(ctx, limit)
}

func (m *mutant) Stats(ctx context.Context) (store.Stats, error) {
	if m.stats != nil {
		return m.stats(ctx)
	}
	return m.Store.Stats(ctx)
}

func (m *mutant) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	do := m.resolve
	if do == nil {
		do = m.Store.Resolve
	}
	r, ok, err := do(ctx, req)
	return m.show(r), ok, err
}

func (m *mutant) Forget(ctx context.Context, id store.ID, from int64, by store.Audit) (store.Record, bool, error) {
	do := m.forget
	if do == nil {
		do = m.Store.Forget
	}
	r, ok, err := do(ctx, id, from, by)
	return m.show(r), ok, err
}

func (m *mutant) Defer(ctx context.Context, id store.ID, from int64, d time.Duration) (bool, error) {
	if m.deferral != nil {
		return m.deferral(ctx, id, from, d)
	}
	return m.Store.Defer(ctx, id, from, d)
}

func (m *mutant) Watch(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	if m.watch != nil {
		return m.watch(id, fence)
	}
	return m.Store.Watch(id, fence)
}

func (m *mutant) Begin(ctx context.Context) (store.Tx, error) {
	if m.begin != nil {
		return m.begin(ctx)
	}
	return m.Store.Begin(ctx)
}

// mutantTx is a transaction with a defect.
type mutantTx struct {
	store.Tx
	cancel   func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error)
	settle   func(ctx context.Context, o store.Owner, s store.Settlement) error
	commit   func(ctx context.Context) error
	rollback func(ctx context.Context) error
	err      func() error
}

// beginWith breaks every transaction.
func (m *mutant) beginWith(mar func(tx *mutantTx)) {
	m.begin = func(ctx context.Context) (store.Tx, error) {
		healthy, err := m.Store.Begin(ctx)
		if err != nil {
			return nil, err
		}
		tx := &mutantTx{Tx: healthy}
		mar(tx)
		return tx, nil
	}
}

func (t *mutantTx) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	if t.cancel != nil {
		return t.cancel(ctx, req)
	}
	return t.Tx.Cancel(ctx, req)
}

func (t *mutantTx) Settle(ctx context.Context, o store.Owner, s store.Settlement) error {
	if t.settle != nil {
		return t.settle(ctx, o, s)
	}
	return t.Tx.Settle(ctx, o, s)
}

func (t *mutantTx) Commit(ctx context.Context) error {
	if t.commit != nil {
		return t.commit(ctx)
	}
	return t.Tx.Commit(ctx)
}

func (t *mutantTx) Err() error {
	if t.err != nil {
		return t.err()
	}
	return t.Tx.Err()
}

func (t *mutantTx) Rollback(ctx context.Context) error {
	if t.rollback != nil {
		return t.rollback(ctx)
	}
	return t.Tx.Rollback(ctx)
}

// counts are effects in memory.
type counts struct {
	mu    sync.Mutex
	n     map[store.ID]int
	early bool // they happen before the commit
}

func (c *counts) Add(ctx context.Context, id store.ID) error {
	add := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[id]++
	}
	if c.early {
		add()
		return nil
	}
	return memstore.Tx(ctx).Do(add)
}

func (c *counts) Count(_ context.Context, id store.ID) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[id], nil
}

// Break implements [Breaker].
func (c *counts) Break(ctx context.Context, failure error) error {
	return memstore.Tx(ctx).Fail(failure)
}
