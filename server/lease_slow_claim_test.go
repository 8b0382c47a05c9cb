package server_test

import (
	"context"
	"fmt"
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

// A claim takes most of its lease. The first renewal begins at once, and takes long as well:
// the run keeps its key.
func TestLease_slowClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 30 * time.Second
		s := &flaky{TxStore: memstore.New()}
		s.claim = func(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
			r, won, err := s.TxStore.Claim(ctx, req)
			time.Sleep(lease * 6 / 10)
			return r, won, err
		}
		s.renew = func(ctx context.Context, owners []store.Owner, d time.Duration) (store.Renewal, error) {
			time.Sleep(lease / 4)
			return s.TxStore.Renew(ctx, owners, d)
		}
		g := newGuard(t, s, server.Config{Lease: lease, StoreTimeout: time.Minute})
		h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(lease)
			require.NoError(t, r.Context().Err(), "the run has its lease")
			fmt.Fprint(w, "done")
		})
		requireAnswer(t, send(h, "k", "b"), http.StatusOK, "done", false)
		require.NoError(t, g.Shutdown(t.Context())) // a renewal goes on
	})
}

// Each renewal takes most of the time until the next one. The time to the next renewal counts from the moment at
// which the lease was asked for, also for a run that began meanwhile.
func TestLease_slowRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lease = 30 * time.Second
		s := &flaky{TxStore: memstore.New()}
		var calls atomic.Int32
		s.renew = func(ctx context.Context, owners []store.Owner, d time.Duration) (store.Renewal, error) {
			calls.Add(1)
			time.Sleep(lease/3 - time.Second)
			return s.TxStore.Renew(ctx, owners, d)
		}
		g := newGuard(t, s, server.Config{Lease: lease, StoreTimeout: time.Minute, HandlerTimeout: time.Hour})
		h := newRoute(t, g, server.Keyed, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(4 * lease)
			fmt.Fprint(w, context.Cause(r.Context()))
		})
		var wg sync.WaitGroup
		for n := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(n) * 3 * time.Second)
				requireAnswer(t, send(h, fmt.Sprint("k-", n), "b"), http.StatusOK, "<nil>", false)
			})
		}
		wg.Wait()
		require.Less(t, calls.Load(), int32(20), "about one call for a third of the lease")
		require.NoError(t, g.Shutdown(t.Context())) // a renewal goes on
	})
}
