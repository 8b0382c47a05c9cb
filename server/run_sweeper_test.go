package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// sweeping runs g's sweeper for a while.
func sweeping(g *server.Guard, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	g.RunSweeper(ctx)
}

// A busyStore always has more to sweep, and sweeps can slow its claims. Such a
// claim takes longer if it comes while a batch is deleted, or within the time
// after that.
type busyStore struct {
	*flaky
	feels    atomic.Bool
	deleting atomic.Int64  // batches that are running, or ended within after
	after    time.Duration // set before use

	mu      sync.Mutex
	batches []int
	beside  int // claims that came while a batch was deleted
	claims  int
}

const (
	perRecord = 20 * time.Microsecond // of a sweep
	claimTime = 2 * time.Millisecond
)

func newBusyStore() *busyStore {
	s := &busyStore{flaky: &flaky{TxStore: memstore.New()}}
	s.sweep = func(_ context.Context, limit int) (int, error) {
		s.mu.Lock()
		s.batches = append(s.batches, limit)
		s.mu.Unlock()
		s.deleting.Add(1)
		defer time.AfterFunc(s.after, func() { s.deleting.Add(-1) })
		time.Sleep(time.Duration(limit) * perRecord)
		return limit, nil
	}
	s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
		beside := s.deleting.Load() > 0
		s.mu.Lock()
		s.claims++
		if beside {
			s.beside++
		}
		s.mu.Unlock()
		time.Sleep(claimTime)
		if beside && s.feels.Load() {
			time.Sleep(claimTime)
		}
		return s.TxStore.Claim(ctx, req)
	}
	return s
}

// since describes the time after its last call. It returns the average size of
// the batches, the number of deleted records, and the share of claims beside a
// batch.
func (s *busyStore) since() (batch float64, deleted int, beside float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.batches {
		deleted += n
	}
	batch, beside = float64(deleted)/float64(len(s.batches)), float64(s.beside)/float64(s.claims)
	s.batches, s.beside, s.claims = nil, 0, 0
	return batch, deleted, beside
}

// requests sends requests to g at fixed times, without waiting for earlier
// ones, until stop is called.
func requests(t *testing.T, g *server.Guard, each time.Duration) (stop func()) {
	h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			wg.Go(func() {
				if got := send(h, fmt.Sprint("k-", n), "b").Code; got != http.StatusCreated {
					t.Errorf("request %d: status = %d, want %d", n, got, http.StatusCreated)
				}
			})
			time.Sleep(each)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// The sweeper slows down if it slows requests. It takes its full speed if it
// slows no request, and if there are no requests.
func TestRunSweeper_givesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newBusyStore()
		g := newGuard(t, s, server.Config{})
		stop := requests(t, g, 5*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { g.RunSweeper(ctx) })
		defer wg.Wait()
		defer cancel()

		time.Sleep(10 * time.Second)
		s.since()
		time.Sleep(10 * time.Second)
		fast, most, _ := s.since()
		require.InDelta(t, server.DefaultSweepBatch, fast, 0, "records in a batch that nobody feels")

		s.feels.Store(true)
		time.Sleep(10 * time.Second)
		s.since()
		time.Sleep(20 * time.Second)
		slow, least, beside := s.since()
		require.Less(t, slow, fast/2)
		require.Less(t, beside, 0.25, "share of requests that felt it")
		require.Greater(t, least/3, most/100, "it goes on")

		stop()
		time.Sleep(20 * time.Second)
		s.since()
		time.Sleep(10 * time.Second)
		alone, _, _ := s.since()
		require.InDelta(t, server.DefaultSweepBatch, alone, 0, "records in a batch when nobody is there")
	})
}

// Even if sweeps slow requests much, more records are deleted than come:
// otherwise the table would grow without end.
func TestRunSweeper_keepsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newBusyStore()
		s.after = 20 * time.Millisecond
		s.feels.Store(true)
		g := newGuard(t, s, server.Config{MinSweepPause: 100 * time.Millisecond})
		const each = 2 * time.Millisecond
		stop := requests(t, g, each)
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { g.RunSweeper(ctx) })
		defer wg.Wait()
		defer cancel()

		time.Sleep(2 * time.Second)
		s.since()
		const long = 5 * time.Second
		time.Sleep(long)
		batch, deleted, _ := s.since()
		require.Less(t, batch, server.DefaultSweepBatch/8.0, "records in a batch that is felt")
		require.Greater(t, deleted, int(long/each))
	})
}

// An expired record is gone a round later. While there is nothing to do, a
// round is one call to the store.
func TestRunSweeper_rounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sweeps atomic.Int64
		s := &flaky{TxStore: memstore.New()}
		s.sweep = func(ctx context.Context, limit int) (int, error) {
			sweeps.Add(1)
			return s.TxStore.Sweep(ctx, limit)
		}
		seen, metrics := new(witness), server.NewMetrics()
		g := newGuard(t, s, server.Config{Observer: both{seen, metrics}})
		var runs atomic.Int64
		h := newRoute(t, g, server.Keyed, slow(0, &runs))
		for n := range 300 {
			send(h, fmt.Sprint("k-", n), "b")
		}
		sweeping(g, time.Hour)
		require.InDelta(t, 60, sweeps.Load(), 20)
		require.Zero(t, seen.count(server.EventSwept), "nothing was deleted")

		time.Sleep(server.DefaultAuditRetention)
		sweeping(g, 10*time.Second)
		stats, err := s.Stats(t.Context())
		require.NoError(t, err)
		require.Empty(t, stats.ByState)
		deleted := 0
		for _, e := range seen.all(server.EventSwept) {
			deleted += e.Count
		}
		require.Equal(t, 300, deleted)
		require.EqualValues(t, 300, metrics.Snapshot()[""].Counts["swept"])
	})
}

// both are two observers.
type both [2]server.Observer

func (b both) Observe(ctx context.Context, e server.Event) {
	for _, o := range b {
		o.Observe(ctx, e)
	}
}

// If answers are deleted before their records, the number of due records is unknown.
func TestRunSweeper_answersGoEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sweeps atomic.Int64
		s := &flaky{TxStore: memstore.New()}
		s.sweep = func(context.Context, int) (int, error) { return 0, errIf(sweeps.Add(1) < 0) }
		sweeping(newGuard(t, s, server.Config{BodyRetention: time.Hour}), time.Hour)
		require.InDelta(t, 2900, sweeps.Load(), 300)
	})
}

func errIf(fails bool) error {
	if fails {
		return errDown
	}
	return nil
}

// A store that is down is asked less and less often. The failures are reported, and when the store is back the sweeps
// go on.
func TestRunSweeper_failures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var sweeps atomic.Int64
		s := &flaky{TxStore: memstore.New()}
		s.sweep = func(context.Context, int) (int, error) {
			sweeps.Add(1)
			return 0, errIf(down.Load())
		}
		down.Store(true)
		seen := new(witness)
		var log bytes.Buffer
		g := newGuard(t, s, server.Config{Observer: seen, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		sweeping(g, time.Hour)
		require.InDelta(t, 65, sweeps.Load(), 25)
		failures := seen.all(server.EventSweepError)
		require.Len(t, failures, int(sweeps.Load()))
		require.ErrorIs(t, failures[0].Err, errDown)
		require.Contains(t, log.String(), "sweep failed")

		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(5 * time.Minute); down.Store(false) }()
		go func() { time.Sleep(time.Hour); cancel() }()
		g.RunSweeper(ctx)
		require.InDelta(t, 55, int(sweeps.Load())-seen.count(server.EventSweepError), 20)
	})
}

// The sweeper ends a call to a store that hangs, and tries again later.
func TestRunSweeper_storeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{TxStore: memstore.New()}
		s.sweep = func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		seen := new(witness)
		sweeping(newGuard(t, s, server.Config{Observer: seen}), time.Hour)
		require.Greater(t, seen.count(server.EventSweepError), 30)
		require.ErrorIs(t, seen.all(server.EventSweepError)[0].Err, context.DeadlineExceeded)
	})
}

// A partitionedStore counts the calls that maintain its partitions.
type partitionedStore struct {
	*flaky
	mu    sync.Mutex
	calls []time.Duration // the keep argument of each call
	err   error
}

func (s *partitionedStore) MaintainPartitions(_ context.Context, keep time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, keep)
	return s.err
}

var _ store.PartitionStore = (*partitionedStore)(nil)

func TestRunSweeper_maintainsPartitions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  server.Config
		want time.Duration
	}{
		{"defaults", server.Config{}, server.DefaultAuditRetention},
		{"audit", server.Config{AuditRetention: 30 * 24 * time.Hour}, 30 * 24 * time.Hour},
		{"body", server.Config{BodyRetention: time.Hour}, time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &partitionedStore{flaky: &flaky{TxStore: memstore.New()}}
			sweeping(newGuard(t, s, tt.cfg), time.Hour)
			require.InDelta(t, 60, len(s.calls), 20, tt.name)
			require.Equal(t, tt.want, s.calls[0], tt.name)
		})
	}
}

// Maintenance that fails, or a bank that does not answer, does not stop the
// sweeps.
func TestRunSweeper_goesOnBesideFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errLocked := errors.New("locked")
		s := &partitionedStore{flaky: &flaky{TxStore: memstore.New()}, err: errLocked}
		var sweeps atomic.Int64
		s.sweep = func(context.Context, int) (int, error) { sweeps.Add(1); return 0, nil }
		seen := new(witness)
		silent := &bank{}
		g, h, _ := charges(t, s, silent, server.Config{Observer: seen, HandlerTimeout: 24 * time.Hour})
		hangs := make(chan struct{})
		silent.says = func(store.Record) (server.Resolution, error) { <-hangs; return server.NeverHappened(), nil }
		send(h, "k", "b")
		go func() { time.Sleep(2 * time.Hour); close(hangs) }()
		sweeping(g, time.Hour) // and until the bank has answered
		require.Equal(t, 1, silent.calls())
		require.Greater(t, sweeps.Load(), int64(40))
		require.ErrorIs(t, seen.all(server.EventSweepError)[0].Err, errLocked)
	})
}

// Shutdown ends the sweeper, and waits for the batch that is running.
func TestRunSweeper_shutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{TxStore: memstore.New()}
		var ended atomic.Bool
		s.sweep = func(context.Context, int) (int, error) {
			time.Sleep(3 * time.Second)
			ended.Store(true)
			return 0, nil
		}
		seen := new(witness)
		g := newGuard(t, s, server.Config{Observer: seen})
		go g.RunSweeper(context.Background())
		time.Sleep(time.Second)
		require.NoError(t, g.Shutdown(t.Context()))
		require.True(t, ended.Load(), "Shutdown did not wait")
		require.Empty(t, seen.events, "it did not fail")
		start := time.Now()
		g.RunSweeper(t.Context())
		require.Zero(t, time.Since(start), "nothing begins after Shutdown")
	})
}

// Several sweepers, of one guard and of two, do not disturb each other.
func TestRunSweeper_several(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		cfg := server.Config{SweepBatch: 10, Retention: time.Minute, AuditRetention: 10 * time.Minute}
		one, other := newGuard(t, s, cfg), newGuard(t, s, cfg)
		stop := requests(t, one, 2*time.Second)
		var wg sync.WaitGroup
		for _, g := range []*server.Guard{one, one, other} {
			wg.Go(func() { sweeping(g, 31*time.Minute) })
		}
		time.Sleep(30 * time.Minute)
		stats, err := s.Stats(t.Context())
		require.NoError(t, err)
		// A record comes every two seconds, and stays for its retention of ten minutes and until the next round.
		require.InDelta(t, 315, stats.ByState[server.StateCompleted], 30)
		stop()
		wg.Wait()
	})
}
