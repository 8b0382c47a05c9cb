package pgstore_test

import (
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
