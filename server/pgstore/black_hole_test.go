package pgstore_test

import (
	"crypto/rand"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// The network to the database falls silent while a run commits. The caller hears 503 at
// the deadline, whether or not COMMIT arrived. When the network is back, the same key
// ends with one effect.
func TestNetwork_silentDuringCommit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		silence   func(*pgkittest.Proxy)
		committed int // rows, while the network is silent
	}{
		{"COMMIT does not arrive", (*pgkittest.Proxy).HoldRequests, 0},
		{"the answer to COMMIT does not arrive", (*pgkittest.Proxy).HoldAnswers, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			look := ledger(t)
			network := pgkittest.NewProxy(t, look.Config().ConnString())
			s := openThrough(t, network, pgstore.Config{})
			var silent atomic.Bool
			c := newCallee(t, s, server.Config{
				Lease: time.Second, StoreTimeout: time.Second, SettleTimeout: time.Second,
			}, func(*http.Request) {
				if silent.CompareAndSwap(true, false) {
					tt.silence(network)
				}
			})
			for range 3 { // the connections know the statements: nothing but COMMIT is left to send
				require.Equal(t, http.StatusCreated, c.insist(t, "warm"+rand.Text()).status)
			}
			exec(t, look, "delete from effect")

			silent.Store(true)
			lost := c.post(t.Context(), "order-1")
			require.Equal(t, http.StatusServiceUnavailable, lost.status, "at the deadline, while nothing arrives: %s", lost.body)
			require.NotEmpty(t, lost.header.Get(wire.HeaderRetryAfter))
			require.Equal(t, tt.committed, queryRow[int](t, look, "select count(*) from effect"))
			again := c.post(t.Context(), "order-1")
			require.Equal(t, http.StatusServiceUnavailable, again.status, "nobody can know the answer yet: %s", again.body)

			network.Release()
			final := c.insist(t, "order-1")
			require.Equal(t, http.StatusCreated, final.status, final.body)
			require.Equal(t, "once", final.body)
			require.Equal(t, http.StatusCreated, c.insist(t, "order-2").status, "another key, over the connections that are left")
			require.Equal(t, 2, queryRow[int](t, look, "select count(*) from effect"), "one each")
			until(t, "no session stays in a transaction", func() bool {
				return !queryRow[bool](t, look, `select exists (select from pg_stat_activity
					where datname = current_database() and state like 'idle in transaction%')`)
			})
			require.Equal(t, 5, queryRow[int](t, look, "select count(*) from idempotency where state = 2"))
		})
	}
}
