package servertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/fanonce/fanonce/server/store"
)

var sweepDefects = []defect{
	{"sweeps the living", func(m *mutant) {
		m.sweep = func(ctx context.Context, limit int) (n int, err error) {
			m.ahead(func() { n, err = m.Store.Sweep(ctx, limit) })
			return n, err
		}
	}, []string{
		"sweep: a run that is taken over meanwhile is not deleted",
		"sweep: exactly the expired records that no call needs are deleted",
	}},
	{"sweeps without a limit", func(m *mutant) {
		m.sweep = func(ctx context.Context, _ int) (int, error) { return m.Store.Sweep(ctx, 1<<30) }
	}, []string{"sweep: a call deletes at most limit records, and repeated calls delete all"}},
	{"sweeps one at a time and then no more", func(m *mutant) {
		var once sync.Once
		m.sweep = func(ctx context.Context, limit int) (n int, err error) {
			once.Do(func() { n, err = m.Store.Sweep(ctx, limit) })
			return n, err
		}
	}, []string{
		"sweep: concurrent sweepers count each record once",
		"sweep: a call deletes at most limit records, and repeated calls delete all",
	}},
	{"counts what it meets, not what it sweeps", func(m *mutant) {
		m.sweep = func(ctx context.Context, limit int) (int, error) {
			n, err := m.Store.Sweep(ctx, limit)
			return n + 1, err
		}
	}, []string{
		"sweep: exactly the expired records that no call needs are deleted",
		"sweep: a call deletes at most limit records, and repeated calls delete all",
		"sweep: concurrent sweepers count each record once",
		"model: a thousand random calls, as the model says",
	}},
	{"says that it swept, and sweeps nothing", func(m *mutant) {
		m.sweep = func(ctx context.Context, limit int) (int, error) { return limit, ctx.Err() }
	}, []string{
		"sweep: a swept key can be claimed as a new one",
		"sweep: concurrent sweepers count each record once",
		"sweep: a call deletes at most limit records, and repeated calls delete all",
	}},
	{"sweeps beside a take-over", func(m *mutant) {
		var swept atomic.Bool
		m.sweep = func(ctx context.Context, limit int) (int, error) { swept.Store(true); return m.Store.Sweep(ctx, limit) }
		m.takeOver = func(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
			r, won, err := m.Store.TakeOver(ctx, req, from)
			if errors.Is(err, store.ErrNotFound) && swept.Load() {
				return r, true, nil
			}
			return r, won, err
		}
	}, []string{"sweep: a run that is taken over meanwhile is not deleted"}},
}
