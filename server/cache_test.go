package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
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

// cachedRoute is a route whose guard has a cache, the count of its claims, and
// its events.
func cachedRoute(tb testing.TB, cfg server.Config, next http.HandlerFunc) (http.Handler, *flaky, *witness) {
	tb.Helper()
	store, events := &flaky{TxStore: memstore.New()}, new(witness)
	cfg.Observer = events
	return newRoute(tb, newGuard(tb, store, cfg), server.Keyed, next), store, events
}

func TestCache_offByDefault(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h, store, events := cachedRoute(t, server.Config{}, answer(http.StatusCreated, &runs))
	requireAnswer(t, send(h, "k", "b"), http.StatusCreated, firstAnswer, false)
	requireAnswer(t, send(h, "k", "b"), http.StatusCreated, firstAnswer, true)
	require.EqualValues(t, 2, store.asked.Load())
	require.Zero(t, events.count(server.EventCacheHit))
}

func TestCache_replaysWithoutTheStore(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h, store, events := cachedRoute(t, server.Config{CacheBytes: 1 << 20}, answer(http.StatusCreated, &runs))
	requireAnswer(t, send(h, "k", "b"), http.StatusCreated, firstAnswer, false)
	for range 3 {
		requireAnswer(t, send(h, "k", "b"), http.StatusCreated, firstAnswer, true)
	}
	requireCode(t, send(h, "k", "another body"), wire.KeyReused)
	require.EqualValues(t, 1, runs.Load())
	require.EqualValues(t, 1, store.asked.Load(), "statements of duplicates")
	require.Equal(t, 4, events.count(server.EventCacheHit))
	require.Equal(t, 3, events.count(server.EventHit))
	require.Equal(t, 1, events.count(server.EventMismatch))
}

// An answer from another process is in the cache after the first duplicate.
func TestCache_learnsFromTheStore(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	store := &flaky{TxStore: memstore.New()}
	cfg := server.Config{CacheBytes: 1 << 20}
	here := newRoute(t, newGuard(t, store, cfg), server.Keyed, answer(http.StatusCreated, &runs))
	elsewhere := newRoute(t, newGuard(t, store, cfg), server.Keyed, answer(http.StatusCreated, &runs))
	send(elsewhere, "k", "b")
	for range 3 {
		requireAnswer(t, send(here, "k", "b"), http.StatusCreated, firstAnswer, true)
	}
	require.EqualValues(t, 2, store.asked.Load())
}

// The cache keeps only final records: a released key must run again.
func TestCache_finishedRecordsOnly(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	h, _, events := cachedRoute(t, server.Config{CacheBytes: 1 << 20}, answer(http.StatusServiceUnavailable, &runs))
	send(h, "k", "b")
	send(h, "k", "b")
	require.EqualValues(t, 2, runs.Load())
	require.Zero(t, events.count(server.EventCacheHit))
}

func TestCache_boundedInBytes(t *testing.T) {
	t.Parallel()
	big := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("x", 1000))) }
	h, store, _ := cachedRoute(t, server.Config{CacheBytes: 4000}, big) // room for two
	for _, key := range []string{"a", "b", "c"} {
		send(h, key, "")
	}
	send(h, "b", "")
	send(h, "c", "")
	require.EqualValues(t, 3, store.asked.Load(), "the two youngest are cached")
	send(h, "a", "")
	require.EqualValues(t, 4, store.asked.Load(), "the oldest was dropped")
	send(h, "c", "")
	require.EqualValues(t, 4, store.asked.Load(), "the one used last stays")
	send(h, "b", "")
	require.EqualValues(t, 5, store.asked.Load(), "the one not used for longest went")

	larger, store, _ := cachedRoute(t, server.Config{CacheBytes: 1000}, big)
	send(larger, "a", "")
	send(larger, "a", "")
	require.EqualValues(t, 2, store.asked.Load(), "an answer larger than the cache is not cached")
}

func TestCache_age(t *testing.T) {
	t.Parallel()
	brief := server.Config{Lease: time.Second, Retention: 10 * time.Second, AuditRetention: 20 * time.Second, Skew: time.Second}
	for _, tt := range []struct {
		name  string
		cfg   server.Config
		after time.Duration
		asked int64
		check func(*testing.T, http.Handler)
	}{
		{
			"within a minute",
			server.Config{},
			59 * time.Second, 1,
			func(t *testing.T, h http.Handler) {
				requireAnswer(t, send(h, "k", "b"), http.StatusOK, firstAnswer, true)
			},
		},
		{
			"past a minute",
			server.Config{},
			time.Minute, 2,
			func(t *testing.T, h http.Handler) {
				requireAnswer(t, send(h, "k", "b"), http.StatusOK, firstAnswer, true)
			},
		},
		{
			"past Retention",
			brief,
			11 * time.Second, 1,
			func(t *testing.T, h http.Handler) { requireCode(t, send(h, "k", "b"), wire.ResponseGone) },
		},
		{
			"past AuditRetention the store decides",
			brief,
			21 * time.Second, 2,
			func(t *testing.T, h http.Handler) { requireCode(t, send(h, "k", "b"), wire.ResponseGone) }, // not swept yet
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				tt.cfg.CacheBytes = 1 << 20
				h, store, _ := cachedRoute(t, tt.cfg, answer(http.StatusOK, &runs))
				send(h, "k", "b")
				time.Sleep(tt.after)
				tt.check(t, h)
				require.Equal(t, tt.asked, store.asked.Load())
				require.EqualValues(t, 1, runs.Load())
			})
		})
	}
}

// An undo in the same process ends the replays of the forward call, even if the answer to the forward call's completion
// arrives after the undo.
func TestCache_undoBeforeTheForwardAnswer(t *testing.T) {
	t.Parallel()
	for _, effect := range []server.Effect{server.Keyed, server.Transactional} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			mem := memstore.New()
			settled, goOn := make(chan struct{}), make(chan struct{})
			var first atomic.Bool
			late := func() {
				if first.CompareAndSwap(false, true) {
					close(settled) // visible from now on; the store's answer is on its way
					<-goOn
				}
			}
			s := &flaky{TxStore: mem}
			s.settle = func(ctx context.Context, o store.Owner, end store.Settlement) error {
				err := mem.Settle(ctx, o, end)
				late()
				return err
			}
			s.begin = func(ctx context.Context) (store.Tx, error) {
				tx, err := mem.Begin(ctx)
				return lateTx{tx, late}, err
			}
			g := newGuard(t, s, server.Config{CacheBytes: 1 << 20})
			forward := newRoute(t, g, effect, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reserved") })
			undo := newRoute(t, g, effect, func(w http.ResponseWriter, r *http.Request) {
				fate, err := server.Barrier(r.Context())
				require.NoError(t, err)
				fmt.Fprint(w, fate)
			})
			var wg sync.WaitGroup
			wg.Go(func() { send(forward, "f", "{}") })
			<-settled
			require.Equal(t, "ran", send(undo, "u", "{}", wire.HeaderCancels, "f").Body.String())
			close(goOn)
			wg.Wait()
			requireCode(t, send(forward, "f", "{}"), wire.KeyCancelled)
		})
	}
}

// A lateTx calls late between a COMMIT and its answer.
type lateTx struct {
	store.Tx
	late func()
}

func (tx lateTx) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	err := tx.Tx.Settle(ctx, o, end)
	tx.late()
	return err
}
