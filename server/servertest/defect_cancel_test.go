package servertest

import (
	"context"
	"errors"
	"runtime"

	"github.com/fanonce/fanonce/server/store"
)

var cancelDefects = []defect{
	{"cancels the living", func(m *mutant) {
		m.cancel = func(ctx context.Context, req store.CancelRequest) (r store.Record, ok bool, err error) {
			m.ahead(func() { r, ok, err = m.Store.Cancel(ctx, req) })
			return r, ok, err
		}
	}, []string{
		"cancel: a cancel and a first claim never both win",
		"cancel: an absent key gets a tombstone, and never runs",
		"cancel: a cancel and a take-over never both win",
	}},
	{"returns the record as it is after the cancel", func(m *mutant) {
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			_, ok, err := m.Store.Cancel(ctx, req)
			if err != nil || !ok {
				return store.Record{}, ok, err
			}
			r, err := m.Store.Read(ctx, req.ID)
			return r, ok, err
		}
	}, []string{
		"cancel: one of 32 makes the tombstone",
		"cancel: a cancel and a take-over never both win",
		"cancel: each state becomes what it must, and the record of before is returned",
	}},
	{"does not hear that an effect was undone", func(m *mutant) {
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			req.Undone = false
			return m.Store.Cancel(ctx, req)
		}
	}, []string{"cancel: an undone completed key becomes a tombstone"}},
	{"cancels nothing that is absent", func(m *mutant) {
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			r, err := m.Store.Read(ctx, req.ID)
			if errors.Is(err, store.ErrNotFound) {
				return r, false, nil
			}
			return m.Store.Cancel(ctx, req)
		}
	}, []string{
		"cancel: an absent key gets a tombstone, and never runs",
		"cancel: a cancel and a first claim never both win",
	}},
	{"takes everybody's cancel for the first", func(m *mutant) {
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			r, ok, err := m.Store.Cancel(ctx, req)
			if r.State == store.StateCancelled {
				return store.Record{}, false, err
			}
			return r, ok, err
		}
	}, []string{
		"cancel: a repeated cancel finds its own tombstone",
		"cancel: one of 32 makes the tombstone",
		"cancel: each state becomes what it must, and the record of before is returned",
	}},
	{"reads before it cancels", func(m *mutant) {
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			r, err := m.Store.Read(ctx, req.ID)
			for range 10 {
				runtime.Gosched()
			}
			before, existed, cancelErr := m.Store.Cancel(ctx, req)
			if errors.Is(err, store.ErrNotFound) {
				return store.Record{}, false, cancelErr
			}
			if err == nil {
				return r, true, cancelErr
			}
			return before, existed, cancelErr
		}
	}, []string{
		"cancel: a cancel and a first claim never both win",
		"cancel: one of 32 makes the tombstone",
		"cancel: a cancel and a take-over never both win",
	}},
	{"leaves the fence of a cancelled key", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			if r.State == store.StateCancelled && r.Fence > 1 {
				r.Fence--
			}
			return r
		}
	}, []string{
		"cancel: one of 32 makes the tombstone",
		"cancel: a cancel and a take-over never both win",
		"cancel: each state becomes what it must, and the record of before is returned",
	}},
	{"forgets who cancelled", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			if r.State == store.StateCancelled {
				r.Token = store.Token{}
			}
			return r
		}
	}, []string{
		"context: a context that ends during a cancel leaves all of it or nothing",
		"cancel: a repeated cancel finds its own tombstone",
		"cancel: an absent key gets a tombstone, and never runs",
	}},
}
