package pgstore_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Every packet between a running callee and its database begins to take half a second. Runs
// that outlive their first lease keep it, and each key has one effect. The test takes 20 s,
// in which it sleeps.
func TestNetwork_halfASecondPerPacket(t *testing.T) {
	t.Parallel()
	const lease, work, latency = 16 * time.Second, 17 * time.Second, 500 * time.Millisecond
	const warm, keys = 6, 3
	look := ledger(t)
	network := pgkittest.NewProxy(t, look.Config().ConnString())
	s := openThrough(t, network, pgstore.Config{})
	var runs atomic.Int32
	c := newCallee(t, s, server.Config{Lease: lease}, func(r *http.Request) {
		if n := runs.Add(1); n <= warm { // together they take as many connections
			until(t, "all are there", func() bool { return runs.Load() >= warm })
			return
		}
		select {
		case <-time.After(work): // longer than the lease
		case <-r.Context().Done():
		}
	})
	insist := func(n, callers int) (replays int) {
		replies := make(chan reply, n*callers)
		for i := range n * callers {
			go func() { replies <- c.insist(t, fmt.Sprintf("order-%d-of-%d", i%n, n)) }()
		}
		for range n * callers {
			r := <-replies
			require.Equal(t, http.StatusCreated, r.status, r.body)
			if r.replayed {
				replays++
			}
		}
		return replays
	}
	require.Zero(t, insist(warm, 1))
	network.Delay(latency)
	require.Equal(t, keys, insist(keys, 2), "of two callers one got the stored answer")

	require.EqualValues(t, warm+keys, runs.Load())
	require.Equal(t, warm+keys, queryRow[int](t, look, "select count(*) from effect"))
	require.Equal(t, warm+keys, queryRow[int](t, look, "select count(*) from idempotency where state = 2 and fence = 1"))
	require.Zero(t, c.count(server.EventLeaseLost))
	require.Zero(t, c.count(server.EventTakeOver))
}

// openThrough opens a store whose connections go through p.
func openThrough(t *testing.T, p *pgkittest.Proxy, cfg pgstore.Config) *pgstore.Store {
	t.Helper()
	pool, err := pgxpool.ParseConfig(p.URL())
	require.NoError(t, err)
	pool.MaxConns = 8
	cfg.AllowNonDurable = true
	s, err := pgstore.Open(t.Context(), pool, cfg)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}
