package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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

// A deadly store lets the first claims of a key hang until their time is up.
func deadly(shared store.TxStore, claims int64) *flaky {
	s := &flaky{TxStore: shared}
	s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
		if s.asked.Load() <= claims {
			<-ctx.Done()
			return store.Record{}, false, ctx.Err()
		}
		return shared.Claim(ctx, req)
	}
	return s
}

// sendAt sends a request after d, and calls then with the answer.
func sendAt(wg *sync.WaitGroup, d time.Duration, h http.Handler, headers []string, then func(w *httptest.ResponseRecorder)) {
	wg.Go(func() {
		time.Sleep(d)
		then(send(h, "k", "b", headers...))
	})
}

// The store does not answer many duplicates. A duplicate that came before a
// call to the store gets the error of that call, and does not ask again.
func TestFollow_sharesTheStoresError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := deadly(memstore.New(), 1000), time.Now()
		h := newRoute(t, newGuard(t, s, server.Config{}), server.Keyed, func(http.ResponseWriter, *http.Request) {})
		var wg sync.WaitGroup
		answeredAt := func(want time.Duration) func(*httptest.ResponseRecorder) {
			return func(w *httptest.ResponseRecorder) {
				requireCode(t, w, wire.StoreUnavailable)
				require.Equal(t, want, time.Since(start))
			}
		}
		sendAt(&wg, 0, h, nil, answeredAt(5*time.Second))
		for range 40 { // during the first call: one of them makes the second, for all
			sendAt(&wg, time.Second, h, nil, answeredAt(10*time.Second))
		}
		for range 40 { // during the second call
			sendAt(&wg, 7*time.Second, h, nil, answeredAt(15*time.Second))
		}
		wg.Wait()
		require.EqualValues(t, 3, s.asked.Load())
	})
}

// A store that is back is asked again. A follower that came during a call does not
// take the error of that call.
func TestFollow_storeComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs, replays atomic.Int64
		h := newRoute(t, newGuard(t, deadly(memstore.New(), 1), server.Config{}), server.Keyed, slow(time.Second, &runs))
		var wg sync.WaitGroup
		sendAt(&wg, 0, h, nil, func(w *httptest.ResponseRecorder) { requireCode(t, w, wire.StoreUnavailable) })
		for range 10 {
			sendAt(&wg, time.Second, h, wait(10), func(w *httptest.ResponseRecorder) {
				require.Equal(t, http.StatusOK, w.Code)
				if w.Header().Get(wire.HeaderReplayed) == "true" {
					replays.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, runs.Load())
		require.EqualValues(t, 9, replays.Load())
	})
}

// A request that is too old to run does not decide for its duplicates.
func TestFollow_keepsAnExpiredRequestToItself(t *testing.T) {
	t.Parallel()
	for range 20 { // either may lead
		synctest.Test(t, func(t *testing.T) {
			var runs atomic.Int64
			h := newRoute(t, newGuard(t, deadly(memstore.New(), 1), server.Config{}), server.Keyed, slow(0, &runs))
			var wg sync.WaitGroup
			sendAt(&wg, 0, h, nil, func(w *httptest.ResponseRecorder) { requireCode(t, w, wire.StoreUnavailable) })
			old := []string{wire.HeaderFirstSent, wire.FormatFirstSent(time.Now().Add(-server.DefaultAuditRetention))}
			sendAt(&wg, time.Second, h, append(old, wait(10)...), func(w *httptest.ResponseRecorder) {
				if w.Code != http.StatusOK { // the other ran before
					requireCode(t, w, wire.KeyExpired)
				}
			})
			sendAt(&wg, time.Second, h, wait(10), func(w *httptest.ResponseRecorder) { require.Equal(t, http.StatusOK, w.Code) })
			wg.Wait()
			require.EqualValues(t, 1, runs.Load())
		})
	}
}

// The same holds if the store dies during a run: the duplicates that waited for
// the run are answered together.
func TestFollow_runThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead, start := &blackHole{TxStore: memstore.New()}, time.Now()
		s := &flaky{TxStore: dead}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			if time.Since(start) > time.Second {
				<-ctx.Done()
				return store.Record{}, false, errors.Join(errDown, ctx.Err())
			}
			return dead.Claim(ctx, req)
		}
		g := newGuard(t, s, server.Config{})
		h := newRoute(t, g, server.Keyed, func(http.ResponseWriter, *http.Request) {
			time.Sleep(time.Second)
			dead.swallow("Settle")
		})
		var wg sync.WaitGroup
		for range 20 {
			sendAt(&wg, 0, h, wait(10), func(w *httptest.ResponseRecorder) {
				requireCode(t, w, wire.StoreUnavailable)
				require.LessOrEqual(t, time.Since(start), time.Second+server.DefaultSettleTimeout+server.DefaultStoreTimeout)
			})
		}
		wg.Wait()
		require.ErrorContains(t, g.Shutdown(t.Context()), "the ends of 1 runs", "which the guard goes on with")
	})
}
