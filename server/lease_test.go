package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
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

var errDown = errors.New("the store is down")

// deaf is a store whose renewals fail, like those of a paused process or over a broken network.
func deaf(shared store.TxStore) *flaky {
	return &flaky{
		TxStore: shared,
		renew: func(context.Context, []store.Owner, time.Duration) (store.Renewal, error) {
			return store.Renewal{}, errDown
		},
	}
}

// die makes one run, on a process of its own, that never settles. It waits
// until the lease of that run has ended.
func die(t *testing.T, shared store.TxStore, effect server.Effect, cfg server.Config) {
	t.Helper()
	s := deaf(shared)
	s.settle = func(context.Context, store.Owner, store.Settlement) error { return errDown }
	s.begin = func(ctx context.Context) (store.Tx, error) {
		tx, err := shared.Begin(ctx)
		return deadTx{tx}, err
	}
	w := send(newRoute(t, newGuard(t, s, cfg), effect, func(http.ResponseWriter, *http.Request) {}), "k", "b")
	requireCode(t, w, wire.StoreUnavailable)
	time.Sleep(server.DefaultLease)
}

type deadTx struct{ store.Tx }

func (deadTx) Settle(context.Context, store.Owner, store.Settlement) error {
	return store.ErrFateUnknown
}

// A slow live owner never loses its key, however often its lease would have ended.
func TestLease_renewedWhileTheRunGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		seen := &witness{}
		s := memstore.New()
		cfg := server.Config{Lease: time.Second, Observer: seen}
		h := newRoute(t, newGuard(t, s, cfg), server.Keyed, slow(10*time.Second, &runs))
		elsewhere := newRoute(t, newGuard(t, s, cfg), server.Keyed, slow(0, &runs))
		go send(h, "k", "b")
		for range 9 {
			time.Sleep(time.Second)
			requireCode(t, send(elsewhere, "k", "b", wait(0)...), wire.InProgress)
		}
		time.Sleep(2 * time.Second)
		requireAnswer(t, send(elsewhere, "k", "b"), http.StatusOK, "1", true)
		require.EqualValues(t, 1, readRecord(t, s, seen).Fence)
		time.Sleep(time.Hour) // an idle guard renews nothing
	})
}

// Renewal goes on until the outcome is recorded, not until the handler returned.
func TestLease_renewedWhileSettling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		under := &flaky{TxStore: memstore.New()}
		under.settle = func(ctx context.Context, o store.Owner, s store.Settlement) error {
			time.Sleep(4 * time.Second)
			return under.TxStore.Settle(ctx, o, s)
		}
		var runs atomic.Int64
		cfg := server.Config{Lease: time.Second}
		h := newRoute(t, newGuard(t, under, cfg), server.Keyed, slow(0, &runs))
		elsewhere := newRoute(t, newGuard(t, under.TxStore, cfg), server.Keyed, slow(0, &runs))
		go send(h, "k", "b")
		time.Sleep(3 * time.Second)
		requireCode(t, send(elsewhere, "k", "b", wait(0)...), wire.InProgress)
		time.Sleep(2 * time.Second)
		requireAnswer(t, send(elsewhere, "k", "b"), http.StatusOK, "1", true)
	})
}

// A zombie's ctx ends before its lease, and its result is discarded.
func TestLease_lost(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := memstore.New()
				seen := &witness{}
				start := time.Now()
				rows := 0
				var told time.Duration
				zombie := newRoute(t, newGuard(t, deaf(shared), server.Config{Observer: seen}), effect, func(w http.ResponseWriter, r *http.Request) {
					if effect == server.Transactional {
						_ = memstore.Tx(r.Context()).Do(func() { rows++ })
					}
					<-r.Context().Done()
					told = time.Since(start)
					if !errors.Is(context.Cause(r.Context()), server.ErrLeaseLost) {
						panic(context.Cause(r.Context()))
					}
					time.Sleep(10 * time.Second) // it wakes up late
					fmt.Fprint(w, "zombie")
				})
				done := make(chan struct{})
				go func() {
					defer close(done)
					requireCode(t, send(zombie, "k", "b"), wire.LeaseLost)
				}()
				time.Sleep(server.DefaultLease)
				var runs atomic.Int64
				successor := newRoute(t, newGuard(t, shared, server.Config{}), effect, slow(0, &runs))
				requireAnswer(t, send(successor, "k", "b"), http.StatusOK, "1", false)
				<-done
				require.Equal(t, server.DefaultLease*9/10, told, "the margin is a tenth of the lease")
				require.Zero(t, rows)
				require.Equal(t, 1, seen.count(server.EventLeaseLost))
				requireAnswer(t, send(successor, "k", "b"), http.StatusOK, "1", true)
			})
		})
	}
}

// A renewal that hangs must not keep the owner working past its lease.
func TestLease_renewalHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{TxStore: memstore.New()}
		hung := make(chan struct{})
		s.renew = func(context.Context, []store.Owner, time.Duration) (store.Renewal, error) {
			<-hung
			return store.Renewal{}, errDown
		}
		start := time.Now()
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		})
		// No other owner took the key over: the outcome of a run that ended well still counts.
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
		require.Equal(t, server.DefaultLease*9/10, time.Since(start))
		close(hung)
	})
}

// After a renewal the alarm counts from the moment at which the renewal was sent.
func TestLease_lostAfterARenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{TxStore: memstore.New()}
		beats := 0
		s.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			if beats++; beats > 1 {
				return store.Renewal{}, errDown
			}
			defer time.Sleep(time.Second) // the answer is slow
			return s.TxStore.Renew(ctx, owners, lease)
		}
		start := time.Now()
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		})
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "", false)
		require.Equal(t, server.DefaultLease/3+server.DefaultLease*9/10, time.Since(start))
	})
}

// A renewal tells the owner that it is not the owner any more.
func TestLease_takenAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{TxStore: memstore.New()}
		s.renew = func(_ context.Context, owners []store.Owner, _ time.Duration) (store.Renewal, error) {
			return store.Renewal{Lost: owners}, nil
		}
		start := time.Now()
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			w.WriteHeader(http.StatusInternalServerError)
		})
		requireCode(t, send(h, "k", "b"), wire.LeaseLost)
		require.Equal(t, server.DefaultLease/3, time.Since(start))
	})
}

// A transaction, such as that of a slow undo, holds the record of one run. That
// run's lease ends; the other runs of the process go on.
func TestLease_oneRecordHeld(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		held time.Duration // how long
		lost bool
	}{
		{"until its lease ends", time.Minute, true},
		{"not so long", 22 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, seen := memstore.New(), &witness{}
				causes := make(chan error, 4)
				h := newRoute(t, newGuard(t, s, server.Config{Observer: seen, HandlerTimeout: time.Hour}), server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-r.Context().Done():
					case <-time.After(10 * time.Minute):
					}
					causes <- context.Cause(r.Context())
				})
				go send(h, "held", "b")
				synctest.Wait()
				for i := range 3 {
					go send(h, fmt.Sprint("free-", i), "b")
				}
				tx, err := s.Begin(t.Context())
				require.NoError(t, err)
				_, _, err = tx.Cancel(t.Context(), store.CancelRequest{ID: seen.id(), Keep: time.Hour})
				require.NoError(t, err)
				time.Sleep(tt.held)
				require.NoError(t, tx.Rollback(t.Context()))
				lost := 0
				for range cap(causes) {
					if err := <-causes; err != nil {
						require.ErrorIs(t, err, server.ErrLeaseLost)
						lost++
					}
				}
				if tt.lost {
					require.Equal(t, 1, lost)
					require.Equal(t, seen.id(), seen.all(server.EventLeaseLost)[0].ID)
				} else {
					require.Zero(t, lost)
				}
			})
		})
	}
}

// A store leaves one owner undecided, and takes all the time of the call for that.
// The other owners are not delayed.
func TestLease_slowForOneOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, seen := &flaky{TxStore: memstore.New()}, &witness{}
		var bad store.ID
		calls := 0
		s.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			good := slices.DeleteFunc(slices.Clone(owners), func(o store.Owner) bool { return o.ID == bad })
			if len(good) < len(owners) {
				if calls++; calls > 1 && len(good) > 0 {
					t.Error("an owner was asked for together with one that was undecided before")
				}
				<-ctx.Done()
			}
			got, err := s.TxStore.Renew(context.WithoutCancel(ctx), good, lease)
			return got, errors.Join(err, ctx.Err())
		}
		h := newRoute(t, newGuard(t, s, server.Config{Observer: seen, HandlerTimeout: time.Hour}), server.Keyed, func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Minute):
			}
		})
		var wg sync.WaitGroup
		wg.Go(func() { send(h, "bad", "b") })
		synctest.Wait()
		bad = seen.id()
		for i := range 3 {
			wg.Go(func() { requireAnswer(t, send(h, fmt.Sprint("good-", i), "b"), http.StatusOK, "", false) })
		}
		wg.Wait()
		lost := seen.all(server.EventLeaseLost)
		require.Len(t, lost, 1)
		require.Equal(t, bad, lost[0].ID)
		require.Greater(t, calls, 1, "it was asked for again before its lease ended")
	})
}

// A short run is over before it could be renewed with the others.
func TestLease_shortRunsAreNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &flaky{TxStore: memstore.New()}
		asked := 0
		s.renew = func(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
			asked += len(owners)
			return s.TxStore.Renew(ctx, owners, lease)
		}
		var runs atomic.Int64
		g := newGuard(t, s, server.Config{})
		h, long := newRoute(t, g, server.Keyed, slow(time.Second, &runs)), newRoute(t, g, server.Keyed, slow(25*time.Second, &runs))
		go send(long, "long", "b")
		for i := range 30 {
			send(h, fmt.Sprint("short-", i), "b")
		}
		require.Equal(t, 2, asked, "after a third and two thirds of the lease")
	})
}

func TestDeath_takenOverAfterTheLease(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Transactional, server.Keyed} {
		synctest.Test(t, func(t *testing.T) {
			shared := memstore.New()
			seen := &witness{}
			die(t, shared, effect, server.Config{})
			h := newRoute(t, newGuard(t, shared, server.Config{Observer: seen}), effect, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, "fence ", server.Fence(r.Context()))
			})
			requireCode(t, send(h, "k", "other"), wire.KeyReused)
			requireAnswer(t, send(h, "k", "b"), http.StatusOK, "fence 2", false)
			requireCode(t, send(h, "k", "other"), wire.KeyReused)
			require.Equal(t, 1, seen.count(server.EventTakeOver))
			rec := readRecord(t, shared, seen)
			require.Equal(t, effect != server.Transactional, rec.MaybeRan)
			require.Equal(t, 1, rec.RecoveryAttempts)
		})
	}
}

// Opaque work that died never runs again without a decision.
func TestDeath_opaqueIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		die(t, shared, server.Opaque, server.Config{})
		var runs atomic.Int64
		seen := &witness{}
		// The effect class of the run that died decides, whatever class the route has now.
		h := newRoute(t, newGuard(t, shared, server.Config{Observer: seen}), server.Keyed, slow(0, &runs))
		for range 2 {
			requireCode(t, send(h, "k", "b"), wire.OutcomeUnknown)
		}
		require.Zero(t, runs.Load())
		require.Equal(t, server.StateUnknown, readRecord(t, shared, seen).State)
		require.Equal(t, 1, seen.count(server.EventUnknown))
	})
}

func TestDeath_quarantinedAfterTooMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := memstore.New()
		cfg := server.Config{MaxRecoveryAttempts: 2}
		for range 3 { // the first owner, and two that took over
			die(t, shared, server.Keyed, cfg)
		}
		var runs atomic.Int64
		seen := &witness{}
		cfg.Observer = seen
		h := newRoute(t, newGuard(t, shared, cfg), server.Keyed, slow(0, &runs))
		requireCode(t, send(h, "k", "b"), wire.Poisoned)
		requireCode(t, send(h, "k", "other"), wire.KeyReused)
		requireAnswer(t, send(h, "k-2", "b"), http.StatusOK, "1", false)
		require.Equal(t, 1, seen.count(server.EventQuarantined))
	})
}

func TestHandlerTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := guarded(t, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if !errors.Is(context.Cause(r.Context()), server.ErrHandlerTimeout) {
				panic(context.Cause(r.Context()))
			}
			w.WriteHeader(http.StatusGatewayTimeout)
		})
		start := time.Now()
		w := send(h, "k", "b", wire.HeaderRequestTimeout, "100") // bounds no run
		require.Equal(t, http.StatusGatewayTimeout, w.Code)
		require.Equal(t, server.DefaultHandlerTimeout, time.Since(start))
	})
}

// A late retry gets a different answer in each window of the retention.
func TestRetention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		s := memstore.New()
		g := newGuard(t, s, server.Config{SweepBatch: 2})
		h := newRoute(t, g, server.Keyed, slow(0, &runs))
		firstSent := []string{wire.HeaderFirstSent, wire.FormatFirstSent(time.Now())}
		requireAnswer(t, send(h, "k", "b", firstSent...), http.StatusOK, "1", false)
		for i := range 4 {
			send(h, fmt.Sprint("other-", i), "b")
		}
		time.Sleep(server.DefaultRetention - time.Second)
		requireAnswer(t, send(h, "k", "b", firstSent...), http.StatusOK, "1", true)
		time.Sleep(time.Second)
		requireCode(t, send(h, "k", "b", firstSent...), wire.ResponseGone)

		time.Sleep(server.DefaultAuditRetention)
		swept, err := g.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, swept)
		for _, key := range []string{"k", "new"} {
			requireCode(t, send(h, key, "b", firstSent...), wire.KeyExpired)
		}
		require.EqualValues(t, 5, runs.Load())
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "6", false) // without first-sent: as documented
	})
}
