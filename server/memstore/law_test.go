package memstore_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/servertest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	servertest.TestStore(t, func(testing.TB) server.Store { return memstore.New() })
}

// A store in a time zone of its own, whose clock is an hour behind: whoever
// compares its times with the process's clock fails.
func TestStore_otherClock(t *testing.T) {
	t.Parallel()
	servertest.TestStore(t, func(tb testing.TB) server.Store {
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
	servertest.TestTxStore(t, func(testing.TB) (server.TxStore, servertest.Effects) {
		return memstore.New(), &counts{n: make(map[server.ID]int)}
	})
}

// counts are effects in memory.
type counts struct {
	mu sync.Mutex
	n  map[server.ID]int
}

func (c *counts) Add(ctx context.Context, id server.ID) error {
	return memstore.Tx(ctx).Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[id]++
	})
}

func (c *counts) Count(_ context.Context, id server.ID) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[id], nil
}

// Where time stands still unless somebody sleeps, no law may spin.
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
