package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A live is a guarded route with a recorder and metrics, and a console of it.
type live struct {
	*site
	handler http.Handler
	guard   *server.Guard
}

func newLive(tb testing.TB, next server.Observer, events int, handle http.HandlerFunc) *live {
	tb.Helper()
	s, metrics := memstore.New(), server.NewMetrics()
	if next == nil {
		next = metrics
	}
	recorder := console.NewRecorder(events, next)
	g, err := server.NewGuard(s, server.Unscoped, server.Config{Observer: recorder})
	require.NoError(tb, err)
	h, err := g.Route(server.Route{Name: "POST /orders", Effect: server.Keyed}, handle)
	require.NoError(tb, err)
	return &live{newSite(tb, console.Config{Stores: []console.Store{{
		Name: "orders", Reader: s.Reader(), Guard: g, Metrics: metrics.Snapshot, Recorder: recorder,
	}}}), h, g}
}

// call sends one request with a key.
func (l *live) call(key string) {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", key)
	l.handler.ServeHTTP(httptest.NewRecorder(), r)
}

func created(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }

// The page of a key shows its runs, and counts its replays.
func TestRecorder_timeline(t *testing.T) {
	t.Parallel()
	l := newLive(t, nil, 0, created)
	scope, err := server.Unscoped(nil)
	require.NoError(t, err)
	for range 3 {
		l.call("k-1")
	}
	l.call("k-2")
	id := l.guard.IDOf(scope, childkey.MustParse("k-1"))
	text := l.get("/key?in=orders&id=" + id.String()).text()
	for _, want := range []string{"run started", "fence 1", "claimed", "settled", "miss", "hit", "2 <small class=\"faint\">of the latest events"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "k-1")
	require.Contains(t, l.get("/request?id="+id.String()).text(), "2 replays seen")
}

// witness is a tracer that counts what it hears.
type witness struct {
	mu                     sync.Mutex
	events, begun, ended   int
	runsBegun, runsEnded   int
	traced                 int
	ctxOfEventsHadOurValue bool
}

type witnessKey struct{}

func (w *witness) count(n *int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*n++
}

func (w *witness) Observe(ctx context.Context, _ server.Event) {
	w.count(&w.events)
	if ctx.Value(witnessKey{}) != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ctxOfEventsHadOurValue = true
	}
}

func (w *witness) CallStarted(ctx context.Context, _ server.CallEvent) context.Context {
	w.count(&w.begun)
	return context.WithValue(ctx, witnessKey{}, true)
}
func (w *witness) CallEnded(context.Context) { w.count(&w.ended) }
func (w *witness) RunStarted(ctx context.Context, _ server.RunEvent) context.Context {
	w.count(&w.runsBegun)
	return ctx
}
func (w *witness) RunEnded(context.Context) { w.count(&w.runsEnded) }
func (w *witness) Trace(context.Context) string {
	w.count(&w.traced)
	return "trace-1"
}

// A tracer behind the recorder hears everything, as if it were the guard's own.
func TestRecorder_passesOn(t *testing.T) {
	t.Parallel()
	var w witness
	l := newLive(t, &w, 0, created)
	l.call("k-1")
	l.call("k-1")
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Equal(t, []int{2, 2, 1, 1}, []int{w.begun, w.ended, w.runsBegun, w.runsEnded})
	require.Positive(t, w.events)
	require.Positive(t, w.traced)
	require.True(t, w.ctxOfEventsHadOurValue)
}

// The recorder forgets the oldest events, and keeps a bounded number of each key.
func TestRecorder_bounds(t *testing.T) {
	t.Parallel()
	r := console.NewRecorder(300, nil)
	observe := func(n int, id byte) {
		for range n {
			r.Observe(t.Context(), server.Event{Kind: server.EventHit, ID: store.ID{id}})
		}
	}
	observe(5, 1)
	observe(250, 2)
	require.Equal(t, 5, console.Events(r, store.ID{1}))
	require.Equal(t, 100, console.Events(r, store.ID{2}))
	observe(45, 3)
	require.Equal(t, 5, console.Events(r, store.ID{1}))
	observe(3, 3)
	require.Equal(t, 2, console.Events(r, store.ID{1}))
	observe(2, 3)
	require.Zero(t, console.Events(r, store.ID{1}))
	observe(300, 0) // of no key
	require.Equal(t, 50, console.Events(r, store.ID{3}))
	observe(1000, 4)
	require.Zero(t, console.Events(r, store.ID{2}))
	require.Equal(t, 1, console.KeysOf(r))
}

// Many goroutines record while a page reads.
func TestRecorder_concurrently(t *testing.T) {
	t.Parallel()
	r := console.NewRecorder(64, nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				r.Observe(t.Context(), server.Event{Kind: server.EventHit, ID: store.ID{byte(i), byte(n % 16)}})
				console.Events(r, store.ID{byte(i), byte(n % 16)})
			}
		})
	}
	all.Wait()
	total := 0
	for i := range 8 {
		for n := range 16 {
			total += console.Events(r, store.ID{byte(i), byte(n)})
		}
	}
	require.Equal(t, 64, total)
}

func BenchmarkRecorder(b *testing.B) {
	r := console.NewRecorder(0, nil)
	ids := make([]store.ID, 1024)
	for i := range ids {
		ids[i] = store.ID{0: 1, 14: byte(i >> 8), 15: byte(i)}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		r.Observe(context.Background(), server.Event{Kind: server.EventHit, ID: ids[n%len(ids)]})
		n++
	}
}

func ExampleNewRecorder() {
	metrics := server.NewMetrics()
	recorder := console.NewRecorder(50_000, metrics)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{Observer: recorder})
	fmt.Println(guard != nil, err)
	// Output: true <nil>
}
