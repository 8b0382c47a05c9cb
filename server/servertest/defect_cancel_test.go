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
		"cancel: it or the first claim wins, never both",
		"cancel: an absent key gets a tombstone, and never runs",
		"cancel: it or the take-over wins, never both",
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
		"cancel: it or the take-over wins, never both",
		"cancel: what each state becomes, and what it was",
	}},
	{"does not hear that an effect was undone", func(m *mutant) {
		m.cancel = func(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
			req.Undone = false
			return m.Store.Cancel(ctx, req)
		}
	}, []string{"cancel: a completed key whose effect was undone"}},
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
		"cancel: it or the first claim wins, never both",
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
		"cancel: repeated after a lost answer it knows itself",
		"cancel: one of 32 makes the tombstone",
		"cancel: what each state becomes, and what it was",
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
		"cancel: it or the first claim wins, never both",
		"cancel: one of 32 makes the tombstone",
		"cancel: it or the take-over wins, never both",
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
		"cancel: it or the take-over wins, never both",
		"cancel: what each state becomes, and what it was",
	}},
	{"forgets who cancelled", func(m *mutant) {
		m.show = func(r store.Record) store.Record {
			if r.State == store.StateCancelled {
				r.Token = store.Token{}
			}
			return r
		}
	}, []string{
		"context: done under way, a cancel is whole or absent",
		"cancel: repeated after a lost answer it knows itself",
		"cancel: an absent key gets a tombstone, and never runs",
	}},
}
