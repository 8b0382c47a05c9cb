package server_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
)

// A teller is a store that tells what watch says.
type teller struct {
	flaky
	watch          func(server.ID, int64) (<-chan struct{}, func())
	watched, stops atomic.Int64
}

func (s *teller) Watch(id server.ID, fence int64) (<-chan struct{}, func()) {
	s.watched.Add(1)
	ended, stop := s.watch(id, fence)
	return ended, func() {
		s.stops.Add(1)
		stop()
	}
}

// tellingAs returns a teller over store, and a store to be another process's.
func tellingAs(watch func(*memstore.Store) func(server.ID, int64) (<-chan struct{}, func())) (*teller, *memstore.Store) {
	shared := memstore.New()
	return &teller{flaky: flaky{TxStore: shared}, watch: watch(shared)}, shared
}

func truthfully(s *memstore.Store) func(server.ID, int64) (<-chan struct{}, func()) { return s.Watch }

func never(*memstore.Store) func(server.ID, int64) (<-chan struct{}, func()) {
	return func(server.ID, int64) (<-chan struct{}, func()) { return make(chan struct{}), func() {} }
}

func always(*memstore.Store) func(server.ID, int64) (<-chan struct{}, func()) {
	return func(server.ID, int64) (<-chan struct{}, func()) {
		ended := make(chan struct{})
		close(ended)
		return ended, func() {}
	}
}

// A run of 5 s elsewhere, and a duplicate here: how late it learns of the end, and
// how often it asks.
func TestWatch_late(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		watch func(*memstore.Store) func(server.ID, int64) (<-chan struct{}, func())
		late  time.Duration
		asked int64
	}{
		{"told when it ends", truthfully, 0, 2},
		{"told for nothing: asks at its own pace", always, 500 * time.Millisecond, 25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				store, shared := tellingAs(tt.watch)
				go send(newRoute(t, newGuard(t, shared, server.Config{}), server.Keyed, slow(5*time.Second, &runs)), "k", "b")
				synctest.Wait()
				h := newRoute(t, newGuard(t, store, server.Config{}), server.Keyed, slow(0, &runs))
				start := time.Now()
				requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "1", true)
				require.LessOrEqual(t, time.Since(start)-5*time.Second, tt.late)
				require.LessOrEqual(t, store.asked.Load(), tt.asked, "questions to the store")
				require.EqualValues(t, 1, store.watched.Load())
				require.EqualValues(t, 1, store.stops.Load())
			})
		})
	}
}

// A store that cannot tell is asked again and again.
func TestWatch_storeCannotTell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		shared := memstore.New()
		go send(newRoute(t, newGuard(t, shared, server.Config{}), server.Keyed, slow(5*time.Second, &runs)), "k", "b")
		synctest.Wait()
		h := newRoute(t, newGuard(t, plainStore{shared}, server.Config{}), server.Keyed, slow(0, &runs))
		start := time.Now()
		requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "1", true)
		require.LessOrEqual(t, time.Since(start)-5*time.Second, 500*time.Millisecond)
	})
}

// A store that forgets to tell costs time. It cannot hide that a lease has
// ended, nor make anybody wait for longer than it wants to.
func TestWatch_neverTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store, shared := tellingAs(never)
		dead := deaf(shared)
		dead.settle = func(context.Context, server.Owner, server.Settlement) error { return errDown }
		go send(newRoute(t, newGuard(t, dead, server.Config{Lease: 3 * time.Second}), server.Keyed, slow(0, &runs)), "k", "b")
		synctest.Wait()
		h := newRoute(t, newGuard(t, store, server.Config{}), server.Keyed, slow(0, &runs))
		start := time.Now()
		requireCode(t, send(h, "k", "b", wait(2)...), wire.InProgress)
		require.Equal(t, 2*time.Second, time.Since(start))
		requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "2", false)
		require.Equal(t, 3*time.Second, time.Since(start), "taken over when the lease ended")
		require.Equal(t, store.watched.Load(), store.stops.Load())
		time.Sleep(time.Minute)
	})
}

// However many come while the first one waits, and ask the store to know what is so
// now: there is one watch. Whoever takes the lead makes the next one.
func TestWatch_onePerLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store, shared := tellingAs(truthfully)
		go send(newRoute(t, newGuard(t, shared, server.Config{}), server.Keyed, slow(5*time.Second, &runs)), "k", "b")
		synctest.Wait()
		h := newRoute(t, newGuard(t, store, server.Config{}), server.Keyed, slow(0, &runs))
		go func() { requireCode(t, send(h, "k", "b", wait(2)...), wire.InProgress) }()
		var wg sync.WaitGroup
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			wg.Go(func() { requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "1", true) })
		}
		wg.Wait()
		require.EqualValues(t, 2, store.watched.Load())
		require.EqualValues(t, 2, store.stops.Load())
	})
}

// The run that is watched ends without an answer, and another process's begins: that
// is another run, and watched anew.
func TestWatch_nextRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store, shared := tellingAs(truthfully)
		failing := func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		go send(newRoute(t, newGuard(t, shared, server.Config{}), server.Transactional, failing), "k", "b")
		synctest.Wait()
		other := newRoute(t, newGuard(t, shared, server.Config{}), server.Transactional, slow(2*time.Second, &runs))
		go send(other, "k", "b", wait(9)...) // woken first: it runs
		synctest.Wait()
		store.read = func(ctx context.Context, id server.ID) (server.Record, error) {
			time.Sleep(time.Millisecond) // leaves the key to the other
			return shared.Read(ctx, id)
		}
		h := newRoute(t, newGuard(t, store, server.Config{}), server.Transactional, slow(0, &runs))
		start := time.Now()
		requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "1", true)
		require.Equal(t, 3*time.Second+time.Millisecond, time.Since(start))
		require.EqualValues(t, 2, store.watched.Load())
		require.EqualValues(t, 1, runs.Load())
	})
}
