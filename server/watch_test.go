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
	"github.com/fanonce/fanonce/server/store"
)

// A teller is a store whose Watch is the function watch.
type teller struct {
	flaky
	watch          func(store.ID, int64) (<-chan struct{}, func())
	watched, stops atomic.Int64
}

func (s *teller) Watch(id store.ID, fence int64) (<-chan struct{}, func()) {
	s.watched.Add(1)
	ended, stop := s.watch(id, fence)
	return ended, func() {
		s.stops.Add(1)
		stop()
	}
}

// tellingAs returns a teller over store, and a store for another process.
func tellingAs(watch func(*memstore.Store) func(store.ID, int64) (<-chan struct{}, func())) (*teller, *memstore.Store) {
	shared := memstore.New()
	return &teller{flaky: flaky{TxStore: shared}, watch: watch(shared)}, shared
}

func truthfully(s *memstore.Store) func(store.ID, int64) (<-chan struct{}, func()) { return s.Watch }

func never(*memstore.Store) func(store.ID, int64) (<-chan struct{}, func()) {
	return func(store.ID, int64) (<-chan struct{}, func()) { return make(chan struct{}), func() {} }
}

func always(*memstore.Store) func(store.ID, int64) (<-chan struct{}, func()) {
	return func(store.ID, int64) (<-chan struct{}, func()) {
		ended := make(chan struct{})
		close(ended)
		return ended, func() {}
	}
}

// Another process has a run of 5 s, and this process a duplicate. The test
// shows how late the duplicate learns of the end, and how often it asks.
func TestWatch_late(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		watch func(*memstore.Store) func(store.ID, int64) (<-chan struct{}, func())
		late  time.Duration
		asked int64
	}{
		{"told when it ends", truthfully, 0, 2},
		{"told for nothing: asks at its own times", always, 500 * time.Millisecond, 25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				s, shared := tellingAs(tt.watch)
				go send(newRoute(t, newGuard(t, shared, server.Config{}), server.Keyed, slow(5*time.Second, &runs)), "k", "b")
				synctest.Wait()
				h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, slow(0, &runs))
				start := time.Now()
				requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "1", true)
				require.LessOrEqual(t, time.Since(start)-5*time.Second, tt.late)
				require.LessOrEqual(t, s.asked.Load(), tt.asked, "questions to the store")
				require.EqualValues(t, 1, s.watched.Load())
				require.EqualValues(t, 1, s.stops.Load())
			})
		})
	}
}

// A store that cannot tell is asked repeatedly.
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

// A store that forgets to tell costs time. It cannot hide the end of a lease,
// and no request waits longer than its own limit.
func TestWatch_neverTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s, shared := tellingAs(never)
		dead := deaf(shared)
		dead.settle = func(context.Context, store.Owner, store.Settlement) error { return errDown }
		go send(newRoute(t, newGuard(t, dead, server.Config{Lease: 3 * time.Second}), server.Keyed, slow(0, &runs)), "k", "b")
		synctest.Wait()
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, slow(0, &runs))
		start := time.Now()
		requireCode(t, send(h, "k", "b", wait(2)...), wire.InProgress)
		require.Equal(t, 2*time.Second, time.Since(start))
		requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "2", false)
		require.Equal(t, 3*time.Second, time.Since(start), "taken over when the lease ended")
		require.Equal(t, s.watched.Load(), s.stops.Load())
		time.Sleep(time.Minute)
	})
}

// Many duplicates come while the first waits, and each makes the leader ask the
// store again. There is still one watch. The next leader makes the next watch.
func TestWatch_onePerLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s, shared := tellingAs(truthfully)
		go send(newRoute(t, newGuard(t, shared, server.Config{}), server.Keyed, slow(5*time.Second, &runs)), "k", "b")
		synctest.Wait()
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, slow(0, &runs))
		go func() { requireCode(t, send(h, "k", "b", wait(2)...), wire.InProgress) }()
		var wg sync.WaitGroup
		for range 40 {
			time.Sleep(100 * time.Millisecond)
			wg.Go(func() { requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "1", true) })
		}
		wg.Wait()
		require.EqualValues(t, 2, s.watched.Load())
		require.EqualValues(t, 2, s.stops.Load())
	})
}

// The watched run ends without an answer, and a run of another process begins. That is another run, with a watch of
// its own.
func TestWatch_nextRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s, shared := tellingAs(truthfully)
		failing := func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		go send(newRoute(t, newGuard(t, shared, server.Config{}), server.Transactional, failing), "k", "b")
		synctest.Wait()
		other := newRoute(t, newGuard(t, shared, server.Config{}), server.Transactional, slow(2*time.Second, &runs))
		go send(other, "k", "b", wait(9)...) // woken first: it runs
		synctest.Wait()
		s.read = func(ctx context.Context, id store.ID) (store.Record, error) {
			time.Sleep(time.Millisecond) // leaves the key to the other
			return shared.Read(ctx, id)
		}
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, slow(0, &runs))
		start := time.Now()
		requireAnswer(t, send(h, "k", "b", wait(9)...), http.StatusOK, "1", true)
		require.Equal(t, 3*time.Second+time.Millisecond, time.Since(start))
		require.EqualValues(t, 2, s.watched.Load())
		require.EqualValues(t, 1, runs.Load())
	})
}
