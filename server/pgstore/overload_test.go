package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// Far more clients than a store has room for send requests over real sockets. Each is answered, or told to come back,
// and none waits for ever. Each client that comes back with its key has one effect.
func TestOverload(t *testing.T) {
	t.Parallel()
	for name, effectOf := range map[string]server.Effect{"Keyed": server.Keyed, "Transactional": server.Transactional} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := ledger(t)
			s := openOn(t, pool, pgstore.Config{MaxQueued: 2}, size(3))
			g, err := server.NewGuard(s, server.Unscoped, server.Config{})
			require.NoError(t, err)
			h, err := g.Handler(effectOf, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var err error
				if effectOf == server.Transactional {
					err = effect(r.Context(), pgstore.Tx(r.Context()))
				}
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
				}
			}))
			require.NoError(t, err)
			callee := httptest.NewServer(h)
			t.Cleanup(callee.Close)
			const clients = 100
			var refused atomic.Int32
			send := func(key string) bool {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, callee.URL, http.NoBody)
				if err != nil { // only the test's own goroutine may stop the test
					t.Error(err)
					return true
				}
				req.Header.Set(wire.HeaderKey, key)
				res, err := callee.Client().Do(req)
				if err != nil {
					t.Error(err)
					return true
				}
				defer func() { _ = res.Body.Close() }()
				body, _ := io.ReadAll(res.Body)
				switch {
				case res.StatusCode == http.StatusOK:
					return true
				case res.StatusCode == http.StatusServiceUnavailable && res.Header.Get(wire.HeaderRetryAfter) != "":
					refused.Add(1)
				default:
					t.Errorf("%d %s", res.StatusCode, body)
				}
				return false
			}
			var all sync.WaitGroup
			for n := range clients {
				all.Go(func() {
					for key := fmt.Sprint("order-", n); !send(key); {
						time.Sleep(time.Millisecond)
					}
				})
			}
			all.Wait()
			require.Positive(t, refused.Load(), "there was room for all")
			require.Equal(t, clients, queryRow[int](t, pool, "select count(*) from idempotency where state = 2"))
			if effectOf == server.Transactional {
				require.Equal(t, clients, queryRow[int](t, pool, "select count(*) from effect"))
			}
		})
	}
}

// A full queue refuses claims, and never the settlement of a run: it waits in front of them.
func TestOverload_settlementIsAdmitted(t *testing.T) {
	t.Parallel()
	const queued = 4
	s, look := open(t, pgstore.Config{MaxQueued: queued}, size(2))
	owners := []store.Owner{claim(t, s), claim(t, s)}
	tx, err := look.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "lock table idempotency in share mode")
	require.NoError(t, err)
	claims := func() error { _, _, err := s.Claim(t.Context(), newClaim()); return err }
	waiting := []<-chan error{inBackground(claims)}
	until(t, "the flush waits", func() bool { return waits(t, look, "Lock") })
	for range queued {
		waiting = append(waiting, inBackground(claims))
	}
	until(t, "the queue is full", func() bool { return s.Queued() >= queued })
	require.ErrorIs(t, claims(), pgstore.ErrQueueFull)
	var settled []<-chan error
	for _, o := range owners {
		settled = append(settled, inBackground(func() error { return s.Settle(t.Context(), o, completion) }))
	}
	require.NoError(t, tx.Rollback(t.Context()))
	for _, done := range settled {
		require.NoError(t, <-done)
	}
	for _, done := range waiting {
		<-done // it may have met the lock
	}
}

// floodFor is how long clients send more than the server bears.
var floodFor = flag.Duration("flood", time.Second, "how long TestOverload_everyEffectIsRecorded sends too much")

// Each effect that happened has its record, however many claims are refused beside it.
func TestOverload_everyEffectIsRecorded(t *testing.T) {
	t.Parallel()
	s, look := open(t, pgstore.Config{MaxQueued: 16}, size(6))
	g, err := server.NewGuard(s, server.Unscoped, server.Config{Lease: time.Minute})
	require.NoError(t, err)
	var effects, refused atomic.Int64
	h := routeOn(t, g, server.Route{Effect: server.Opaque}, func(http.ResponseWriter, *http.Request) { effects.Add(1) })
	end := time.Now().Add(*floodFor)
	var clients sync.WaitGroup
	for c := range 300 {
		clients.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				if postTo(h, fmt.Sprint("k", c, "-", i)).Code == http.StatusServiceUnavailable {
					refused.Add(1)
				}
			}
		})
	}
	clients.Wait()
	t.Logf("%d effects, %d refusals", effects.Load(), refused.Load())
	require.Positive(t, refused.Load(), "the queue was never full")
	require.EqualValues(t, effects.Load(), queryRow[int](t, look, "select count(*) from idempotency where state = 2"))
}
