package memstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/servertest"
	"github.com/fanonce/fanonce/server/store"
)

func TestStore(t *testing.T) {
	t.Parallel()
	servertest.TestStore(t, func(testing.TB) store.Store { return memstore.New() })
}

// The store has its own time zone, and a clock that is an hour behind. Code
// that compares its times with the process's clock fails.
func TestStore_otherClock(t *testing.T) {
	t.Parallel()
	servertest.TestStore(t, func(tb testing.TB) store.Store {
		zone := time.FixedZone("elsewhere", 5*3600)
		s, err := memstore.NewWith(memstore.Config{Now: func() time.Time { return time.Now().Add(-time.Hour).In(zone) }})
		if err != nil {
			tb.Fatal(err)
		}
		return s
	})
}

func TestTxStore(t *testing.T) {
	t.Parallel()
	servertest.TestTxStore(t, func(testing.TB) (store.TxStore, servertest.Effects) {
		return memstore.New(), &counts{n: make(map[store.ID]int)}
	})
}

// counts are effects in memory.
type counts struct {
	mu sync.Mutex
	n  map[store.ID]int
}

func (c *counts) Add(ctx context.Context, id store.ID) error {
	return memstore.Tx(ctx).Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[id]++
	})
}

func (c *counts) Count(_ context.Context, id store.ID) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[id], nil
}

// In a bubble time moves only while goroutines sleep, so no rule may spin.
func TestStore_inABubble(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) { servertest.CheckModel(t, memstore.New(), seed, 500) })
	}
}

// Break implements [servertest.Breaker].
func (c *counts) Break(ctx context.Context, failure error) error {
	return memstore.Tx(ctx).Fail(failure)
}

// setup returns a store whose clock can stand still, and its reader.
func setup(tb testing.TB) servertest.ReaderSetup {
	var stopped atomic.Pointer[time.Time]
	s, err := memstore.NewWith(memstore.Config{Now: func() time.Time {
		if at := stopped.Load(); at != nil {
			return *at
		}
		return time.Now()
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return servertest.ReaderSetup{Store: s, Reader: s.Reader(), SameTime: func(claim func() []store.ID) {
		now := time.Now()
		stopped.Store(&now)
		defer stopped.Store(nil)
		claim()
	}}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	servertest.TestRoutes(t, func(tb testing.TB) store.Store {
		s, err := memstore.NewWith(memstore.Config{KeepRoutes: true})
		if err != nil {
			tb.Fatal(err)
		}
		return s
	})
}

func TestReader(t *testing.T) {
	t.Parallel()
	servertest.TestReader(t, setup)
}
