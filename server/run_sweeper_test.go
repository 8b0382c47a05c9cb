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

// The pause after a full batch is as long as the batch took, and not shorter than 5 ms.
func TestRunSweeper_pauses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		took, pause time.Duration
	}{
		{"a quick batch", time.Millisecond, 5 * time.Millisecond},
		{"a slow batch", 80 * time.Millisecond, 80 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &flaky{TxStore: memstore.New()}
				var pauses []time.Duration
				ended := time.Now()
				s.sweep = func(_ context.Context, limit int) (int, error) {
					pauses = append(pauses, time.Since(ended))
					time.Sleep(tt.took)
					ended = time.Now()
					return limit, nil
				}
				sweeping(newGuard(t, s, server.Config{}), 10*time.Second)
				require.Greater(t, len(pauses), 50)
				for _, pause := range pauses[1:] {
					require.InDelta(t, tt.pause, pause, float64(tt.pause)/4+1)
				}
			})
		})
	}
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
		require.InDelta(t, 3600, sweeps.Load(), 100)
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
		h := newRoute(t, one, server.Keyed, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		var wg sync.WaitGroup
		for _, g := range []*server.Guard{one, one, other} {
			wg.Go(func() { sweeping(g, 31*time.Minute) })
		}
		for n := range 900 { // for half an hour
			send(h, fmt.Sprint("k-", n), "b")
			time.Sleep(2 * time.Second)
		}
		stats, err := s.Stats(t.Context())
		require.NoError(t, err)
		// A record comes every two seconds, and stays for its retention of ten minutes and until the next round.
		require.InDelta(t, 315, stats.ByState[server.StateCompleted], 30)
		wg.Wait()
	})
}
