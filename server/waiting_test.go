package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
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

// slow answers after d, with the number of the run.
func slow(d time.Duration, runs *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		n := runs.Add(1)
		time.Sleep(d)
		fmt.Fprint(w, n)
	}
}

func wait(seconds int) []string { return []string{wire.HeaderPrefer, "wait=" + strconv.Itoa(seconds)} }

// In these tests the duplicate comes to the process of the first run, or to
// another process with the same store.
func inBothProcesses(t *testing.T, cfg server.Config, d time.Duration, test func(t *testing.T, first, duplicate http.Handler, runs *atomic.Int64)) {
	t.Helper()
	for _, name := range []string{"same process", "other process"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				s := memstore.New()
				first := newRoute(t, newGuard(t, s, cfg), server.Keyed, slow(d, &runs))
				duplicate := first
				if name == "other process" {
					duplicate = newRoute(t, newGuard(t, s, cfg), server.Keyed, slow(d, &runs))
				}
				go send(first, "k", "b")
				synctest.Wait()
				test(t, first, duplicate, &runs)
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestWait_negativeAnswersAtOnce(t *testing.T) {
	t.Parallel()
	inBothProcesses(t, server.Config{Wait: -1}, 20*time.Second, func(t *testing.T, _, duplicate http.Handler, runs *atomic.Int64) {
		start := time.Now()
		requireCode(t, send(duplicate, "k", "b"), wire.InProgress)
		requireCode(t, send(duplicate, "k", "other"), wire.KeyReused)
		require.Zero(t, time.Since(start))

		time.Sleep(7 * time.Second) // the hint equals the run's age
		w := send(duplicate, "k", "b")
		requireCode(t, w, wire.InProgress)
		require.Equal(t, "7", w.Header().Get(wire.HeaderRetryAfter))
		require.Contains(t, w.Body.String(), `"retry_after_ms":7000`)
		require.EqualValues(t, 1, runs.Load())
	})
}

func TestWait_untilTheRunEnds(t *testing.T) {
	t.Parallel()
	inBothProcesses(t, server.Config{}, 5*time.Second, func(t *testing.T, first, duplicate http.Handler, runs *atomic.Int64) {
		start := time.Now()
		requireAnswer(t, send(duplicate, "k", "b", wait(9)...), http.StatusOK, "1", true)
		late := time.Since(start) - 5*time.Second
		if first == duplicate {
			require.Zero(t, late, "waiters of the same process are woken at once")
		} else {
			require.LessOrEqual(t, late, 500*time.Millisecond, "the longest pause of a poll")
		}
		require.EqualValues(t, 1, runs.Load())
	})
}

func TestWait_budget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		cfg     server.Config
		headers []string
		want    time.Duration
	}{
		{"default", server.Config{}, nil, 5 * time.Second},
		{"wished", server.Config{}, wait(3), 3 * time.Second},
		{"wished where none is configured", server.Config{Wait: -1}, wait(3), 3 * time.Second},
		{"clamped", server.Config{}, wait(3600), server.DefaultWaitCap},
		{"clamped to a longer default", server.Config{Wait: 12 * time.Second}, wait(3600), 12 * time.Second},
		{"configured", server.Config{Wait: 2 * time.Second}, nil, 2 * time.Second},
		{"none wished", server.Config{Wait: 2 * time.Second}, wait(0), 0},
		{"negative is ignored", server.Config{Wait: 2 * time.Second}, wait(-1), 2 * time.Second},
		{"caller's timeout", server.Config{}, append(wait(9), wire.HeaderRequestTimeout, "1500"), 1500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBothProcesses(t, tt.cfg, 20*time.Second, func(t *testing.T, _, duplicate http.Handler, _ *atomic.Int64) {
				start := time.Now()
				requireCode(t, send(duplicate, "k", "b", tt.headers...), wire.InProgress)
				require.Equal(t, tt.want, time.Since(start))
			})
		})
	}
}

// Many requests for one key cause no poll storm: one of them at a time asks the store.
func TestWait_oneAsksForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		shared := memstore.New()
		other := newRoute(t, newGuard(t, shared, server.Config{}), server.Keyed, slow(8*time.Second, &runs))
		go send(other, "k", "b")
		synctest.Wait()

		s := &flaky{TxStore: shared}
		var at, most atomic.Int64
		atTheStore := func() (leave func()) {
			most.Store(max(most.Load(), at.Add(1)))
			time.Sleep(time.Millisecond)
			return func() { at.Add(-1) }
		}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			defer atTheStore()()
			return shared.Claim(ctx, req)
		}
		s.read = func(ctx context.Context, id store.ID) (store.Record, error) {
			defer atTheStore()()
			return shared.Read(ctx, id)
		}
		seen := &witness{}
		h := newRoute(t, newGuard(t, s, server.Config{MaxWaiters: 16 * 500, Observer: seen}), server.Keyed, slow(0, &runs))
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() { requireAnswer(t, send(h, "k", "b", wait(10)...), http.StatusOK, "1", true) })
			if i == 250 {
				time.Sleep(time.Second)
			}
		}
		wg.Wait()
		require.EqualValues(t, 1, most.Load(), "requests at the store at the same time")
		require.Less(t, s.asked.Load(), int64(40), "requests in 8 s")
		require.Equal(t, 500, seen.count(server.EventHit))
		require.EqualValues(t, 1, runs.Load())
	})
}

func TestWait_caps(t *testing.T) {
	t.Parallel()
	inBothProcesses(t, server.Config{MaxWaiters: 16 * 2}, 20*time.Second, func(t *testing.T, _, duplicate http.Handler, _ *atomic.Int64) {
		var waited atomic.Int64
		for range 5 {
			go func() {
				start := time.Now()
				requireCode(t, send(duplicate, "k", "b", wait(9)...), wire.InProgress)
				if time.Since(start) == 9*time.Second {
					waited.Add(1)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 2, waited.Load())
	})
}

// The leader that polls another process's run may give up. Followers that wait
// longer must still get the outcome.
func TestWait_leaderHangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s := memstore.New()
		go send(newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, slow(5*time.Second, &runs)), "k", "b")
		synctest.Wait()

		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, slow(0, &runs))
		ctx, hangUp := context.WithCancel(t.Context())
		leader := make(chan struct{})
		go func() {
			serve(h, ordered("k", "b", wait(9)...).WithContext(ctx))
			close(leader)
		}()
		synctest.Wait()
		follower := make(chan *httptest.ResponseRecorder, 1)
		go func() { follower <- send(h, "k", "b", wait(9)...) }()
		time.Sleep(time.Second)
		hangUp()
		<-leader
		requireAnswer(t, <-follower, http.StatusOK, "1", true)
		require.EqualValues(t, 1, runs.Load())
	})
}

// The next in line runs if the first run ends without an answer.
func TestWait_firstRunFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		h, _ := guarded(t, server.Transactional, func(w http.ResponseWriter, _ *http.Request) {
			runs++
			time.Sleep(time.Second)
			if runs == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprint(w, runs)
		})
		go send(h, "k", "b")
		synctest.Wait()
		answers := make(chan string, 2)
		for range 2 {
			go func() { answers <- send(h, "k", "b", wait(9)...).Body.String() }()
		}
		require.Equal(t, "2 2", <-answers+" "+<-answers)
		require.Equal(t, 2, runs)
	})
}

// A duplicate that comes while the outcome is being recorded must not be told
// in-progress: others may have seen the outcome already.
func TestWait_finishedKeyIsNeverInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		under := &flaky{TxStore: memstore.New()}
		under.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			err := under.TxStore.Settle(ctx, o, s)
			time.Sleep(time.Second) // visible to others, not yet to us
			return err
		}
		var runs atomic.Int64
		h := newRoute(t, newGuard(t, under, server.Config{}), server.Keyed, slow(time.Second, &runs))
		elsewhere := newRoute(t, newGuard(t, under.TxStore, server.Config{}), server.Keyed, slow(0, &runs))
		go send(h, "k", "b")
		time.Sleep(1500 * time.Millisecond)
		requireAnswer(t, send(elsewhere, "k", "b"), http.StatusOK, "1", true)
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "1", true)
	})
}

// A record that the leader read before a follower came does not show the state
// at the follower's arrival.
func TestWait_followerNeedsAFreshRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s := &flaky{TxStore: memstore.New()}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			rec, mine, err := s.TxStore.Claim(ctx, req)
			time.Sleep(time.Second) // the answer is on its way
			return rec, mine, err
		}
		elsewhere := newRoute(t, newGuard(t, s.TxStore, server.Config{}), server.Keyed, slow(500*time.Millisecond, &runs))
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, slow(0, &runs))
		go send(elsewhere, "k", "b") // done at 0.5 s
		synctest.Wait()
		go func() { requireCode(t, send(h, "k", "b", wait(0)...), wire.InProgress) }() // reads at 0 s, knows at 1 s
		time.Sleep(700 * time.Millisecond)
		requireAnswer(t, send(elsewhere, "k", "b"), http.StatusOK, "1", true)
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "1", true)
	})
}

// Only the follower has the fingerprint of the record: the leader is refused,
// and the follower goes on.
func TestWait_leaderWithAnotherRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s := &flaky{TxStore: memstore.New()}
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, slow(0, &runs))
		send(h, "k", "b")
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			time.Sleep(time.Second)
			return s.TxStore.Claim(ctx, req)
		}
		go func() { requireCode(t, send(h, "k", "other"), wire.KeyReused) }()
		synctest.Wait()
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "1", true)
	})
}

// A claim whose client hangs up is still completed. A dropped claim would leave
// a key that counts as dead without a run.
func TestHandler_clientHangsUpDuringTheClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s := &flaky{TxStore: memstore.New()}
		ctx, hangUp := context.WithCancel(t.Context())
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			hangUp()
			if err := ctx.Err(); err != nil {
				return store.Record{}, false, err
			}
			return s.TxStore.Claim(ctx, req)
		}
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Opaque, slow(0, &runs))
		requireAnswer(t, serve(h, ordered("k", "b").WithContext(ctx)), http.StatusOK, "1", false)
		serve(h, ordered("k-2", "b").WithContext(ctx)) // gone before the claim: nothing runs
		require.EqualValues(t, 1, runs.Load())
	})
}

// This test is for the race detector: many callers use many keys on two processes.
func TestHandler_herd(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	var mu sync.Mutex
	effects := make(map[string]int)
	handler := func(w http.ResponseWriter, r *http.Request) {
		err := memstore.Tx(r.Context()).Do(func() {
			mu.Lock()
			defer mu.Unlock()
			effects[r.Header.Get(wire.HeaderKey)]++
		})
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	var processes []http.Handler
	for range 2 {
		processes = append(processes, newRoute(t, newGuard(t, s, server.Config{}), server.Transactional, handler))
	}
	var wg sync.WaitGroup
	for caller := range 64 {
		wg.Go(func() {
			for i := range 50 {
				w := send(processes[caller%2], "k-"+strconv.Itoa(i), "b", wait(10)...)
				requireAnswer(t, w, http.StatusOK, "", w.Header().Get(wire.HeaderReplayed) == "true")
			}
		})
	}
	wg.Wait()
	require.Len(t, effects, 50)
	for key, n := range effects {
		require.Equal(t, 1, n, key)
	}
}
