package pgstore_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkittest"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// writesGoOn is the longest time after a promotion until a store writes again.
const writesGoOn = 10 * time.Second

// The primary vanishes without a packet, and its standby is promoted. The server still acknowledges what it is sent,
// and accepts connections. A call that waits for its answer keeps no connection for long. Idle connections are not
// tried one after the other. Every acknowledged write is on the standby.
func TestFailover_silentPrimary(t *testing.T) {
	t.Parallel()
	both := func(p *pgkittest.Proxy) { p.HoldRequests(); p.HoldAnswers() }
	for _, tt := range []struct {
		name    string
		silence func(*pgkittest.Proxy)
		idle    bool // no write is running then
	}{
		{"under load", both, false},
		{"under load, and requests still arrive", (*pgkittest.Proxy).HoldAnswers, false},
		{"while connections are idle", both, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			primary, standby, several := replicated(t)
			network := pgkittest.NewProxy(t, primary.URL("shop"))
			w := newWriters(t, strings.Replace(several, hostOf(t, primary.URL("shop")), hostOf(t, network.URL()), 1))
			w.go16(t)
			until(t, "writes are acknowledged", func() bool { return w.count.Load() > 100 })
			if tt.idle {
				w.stop()
				until(t, "the pool is full of idle connections", func() bool { return w.pool.Stat().IdleConns() == 12 })
				time.Sleep(1100 * time.Millisecond) // as long as a connection must be idle to be asked
			}
			tt.silence(network)
			require.NoError(t, standby.Promote(t.Context()))
			w.promoted.Store(time.Now().UnixNano())
			if tt.idle {
				w.go16(t)
			}
			until(t, "a write succeeds", func() bool { return w.first.Load() > 0 })
			after := time.Duration(w.first.Load() - w.promoted.Load())
			before := w.count.Load()
			until(t, "writes go on", func() bool { return w.count.Load() > before+100 })
			w.stop()
			t.Logf("the first write %v after the promotion, %d acknowledged", after, w.count.Load())
			require.Less(t, after, writesGoOn)
			w.requireKept(t, standby.URL("shop"))
		})
	}
}

func hostOf(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	return u.Host
}

// writers are callers that claim and complete fresh keys, one after the other.
type writers struct {
	store        *pgstore.Store
	pool         *pgxpool.Pool // the store's
	acknowledged sync.Map
	count        atomic.Int64
	promoted     atomic.Int64 // when; 0: not yet
	first        atomic.Int64 // when a write succeeded after that
	stop         func()
}

func newWriters(t *testing.T, databaseURL string) *writers {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(databaseURL)
	require.NoError(t, err)
	cfg.MaxConns, cfg.MinConns = 12, 12
	pgstore.Prepare(cfg)
	w := new(writers)
	w.pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	require.NoError(t, pgstore.Migrate(t.Context(), w.pool, ""))
	w.store, err = pgstore.New(w.pool, pgstore.Config{AllowNonDurable: true, CloseTimeout: time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(w.store.Close)
	return w
}

// go16 has sixteen callers write until stop is called.
func (w *writers) go16(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	w.stop = func() { cancel(); callers.Wait() }
	for range 16 {
		callers.Go(func() {
			for ctx.Err() == nil {
				w.write(ctx)
			}
		})
	}
}

// write claims and completes a key, with the time that a guard gives the store.
func (w *writers) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), server.DefaultStoreTimeout)
	defer cancel()
	req := newClaim()
	r, won, err := w.store.Claim(ctx, req)
	if err == nil && won {
		err = w.store.Settle(ctx, store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence}, completion)
	}
	if err != nil {
		return
	}
	if w.promoted.Load() > 0 {
		w.first.CompareAndSwap(0, time.Now().UnixNano())
	}
	w.acknowledged.Store(req.ID, true)
	w.count.Add(1)
}

// requireKept finds every acknowledged key completed on the server that survived.
func (w *writers) requireKept(t *testing.T, databaseURL string) {
	t.Helper()
	survivor, err := pgxpool.New(t.Context(), databaseURL)
	require.NoError(t, err)
	t.Cleanup(survivor.Close)
	w.acknowledged.Range(func(id, _ any) bool {
		key := [16]byte(id.(store.ID))
		require.True(t, queryRow[bool](t, survivor, "select exists (select from idempotency where key = $1 and state = 2)", key), "an acknowledged key is lost")
		return true
	})
}
