package guardprom_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardprom"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func newCollector(tb testing.TB, cfg guardprom.Config) (*guardprom.Collector, *prometheus.Registry) {
	tb.Helper()
	c, err := guardprom.New(cfg)
	require.NoError(tb, err)
	r := prometheus.NewPedanticRegistry() // checks the descriptions
	require.NoError(tb, r.Register(c))
	return c, r
}

// route is a guarded handler that answers with status.
func route(tb testing.TB, s store.Store, o server.Observer, effect server.Effect, status int) http.Handler {
	tb.Helper()
	g, err := server.NewGuard(s, server.Unscoped, server.Config{Observer: o, Wait: -1})
	require.NoError(tb, err)
	h, err := g.Route(server.Route{Name: "orders", Effect: effect}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
	}))
	require.NoError(tb, err)
	return h
}

func send(h http.Handler, key, body string) {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	h.ServeHTTP(httptest.NewRecorder(), r)
}

func TestCollector(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	c, r := newCollector(t, guardprom.Config{Store: s})
	h := route(t, s, c, server.Keyed, http.StatusOK)
	send(h, "secret-key", "tea")
	send(h, "secret-key", "tea")
	send(h, "secret-key", "coffee")
	send(route(t, s, c, server.Opaque, http.StatusInternalServerError), "other-key", "tea")
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP fanonce_guard_refusals_total Calls that were refused, by problem code.
# TYPE fanonce_guard_refusals_total counter
fanonce_guard_refusals_total{error_type="key-reused",fanonce_route="orders"} 1
# HELP fanonce_guard_events_total Events of the guard, by kind. Of swept it counts records.
# TYPE fanonce_guard_events_total counter
fanonce_guard_events_total{fanonce_event="claimed",fanonce_route="orders"} 2
fanonce_guard_events_total{fanonce_event="failed",fanonce_route="orders"} 1
fanonce_guard_events_total{fanonce_event="hit",fanonce_route="orders"} 1
fanonce_guard_events_total{fanonce_event="mismatch",fanonce_route="orders"} 1
fanonce_guard_events_total{fanonce_event="miss",fanonce_route="orders"} 2
fanonce_guard_events_total{fanonce_event="settled",fanonce_route="orders"} 1
fanonce_guard_events_total{fanonce_event="unknown",fanonce_route="orders"} 1
# HELP fanonce_store_attention Keys that need a person, by reason.
# TYPE fanonce_store_attention gauge
fanonce_store_attention{fanonce_reason="dead_letter"} 0
fanonce_store_attention{fanonce_reason="quarantined"} 0
fanonce_store_attention{fanonce_reason="unknown"} 1
# HELP fanonce_store_records Records by state.
# TYPE fanonce_store_records gauge
fanonce_store_records{fanonce_state="cancelled"} 0
fanonce_store_records{fanonce_state="completed"} 1
fanonce_store_records{fanonce_state="in_progress"} 0
fanonce_store_records{fanonce_state="quarantined"} 0
fanonce_store_records{fanonce_state="released"} 0
fanonce_store_records{fanonce_state="unknown"} 1
# HELP fanonce_store_up 1 if the store answered this scrape, else 0.
# TYPE fanonce_store_up gauge
fanonce_store_up 1
`), "fanonce_guard_events_total", "fanonce_guard_refusals_total", "fanonce_store_attention", "fanonce_store_records", "fanonce_store_up"))
	text := scrape(t, r)
	require.Contains(t, text, `fanonce_guard_claim_duration_seconds_count{fanonce_route="orders"} 2`)
	require.Contains(t, text, `fanonce_guard_pending_duration_seconds_count{fanonce_route="orders"} 1`)
	require.NotContains(t, text, "secret-key")
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func scrape(tb testing.TB, r *prometheus.Registry) string {
	tb.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, req)
	require.Equal(tb, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// A down store counts its calls, and returns an error while it is down.
type down struct {
	store.Store
	is    atomic.Bool
	stats atomic.Int64
}

var errDown = errors.New("no tea")

func (d *down) Stats(ctx context.Context) (store.Stats, error) {
	d.stats.Add(1)
	if d.is.Load() {
		return store.Stats{}, errDown
	}
	return d.Store.Stats(ctx)
}

func (d *down) Reader() store.Reader { return downReader{d.Store.Reader(), d} }

type downReader struct {
	store.Reader
	d *down
}

func (r downReader) Attention(ctx context.Context) (store.Attention, error) {
	if r.d.is.Load() {
		return store.Attention{}, errDown
	}
	return r.Reader.Attention(ctx)
}

// A store that does not answer fails no scrape. Its numbers are missing, and not old.
func TestCollector_storeDown(t *testing.T) {
	t.Parallel()
	s := &down{Store: memstore.New()}
	_, r := newCollector(t, guardprom.Config{Store: s, StatsEvery: time.Nanosecond})
	require.Contains(t, scrape(t, r), "fanonce_store_records")
	s.is.Store(true)
	text := scrape(t, r)
	require.Contains(t, text, "fanonce_store_up 0")
	require.NotContains(t, text, "fanonce_store_records")
	require.NotContains(t, text, "fanonce_store_attention")
	s.is.Store(false)
	require.Contains(t, scrape(t, r), "fanonce_store_up 1")
}

// Stats may read the whole table: scrapes share its answer for a while.
func TestCollector_statsAreKept(t *testing.T) {
	t.Parallel()
	s := &down{Store: memstore.New()}
	_, r := newCollector(t, guardprom.Config{Store: s, StatsEvery: time.Hour})
	for range 3 {
		require.Contains(t, scrape(t, r), "fanonce_store_up 1")
	}
	require.EqualValues(t, 1, s.stats.Load())
}

type traceKey struct{}

// The exemplar names the trace of the event's call. Labels that are too long are left out, and harm nothing.
func TestCollector_exemplar(t *testing.T) {
	t.Parallel()
	c, r := newCollector(t, guardprom.Config{Exemplar: func(ctx context.Context) prometheus.Labels {
		id, _ := ctx.Value(traceKey{}).(string)
		return prometheus.Labels{"trace_id": id}
	}})
	event := server.Event{Kind: server.EventClaimed, Route: "orders", Duration: time.Millisecond}
	c.Observe(context.WithValue(t.Context(), traceKey{}, strings.Repeat("x", prometheus.ExemplarMaxRunes+1)), event)
	require.NotContains(t, scrape(t, r), "trace_id")
	c.Observe(context.WithValue(t.Context(), traceKey{}, "0af7651916cd43dd8448eb211c80319c"), event)
	text := scrape(t, r)
	require.Contains(t, text, `# {trace_id="0af7651916cd43dd8448eb211c80319c"} 0.001`)
	require.Contains(t, text, `fanonce_guard_claim_duration_seconds_count{fanonce_route="orders"} 2`)
}

// A sweep counts its records, and the next observer hears of it.
func TestCollector_next(t *testing.T) {
	t.Parallel()
	next := server.NewMetrics()
	c, r := newCollector(t, guardprom.Config{Next: next})
	c.Observe(t.Context(), server.Event{Kind: server.EventSwept, Count: 7})
	require.Contains(t, scrape(t, r), `fanonce_guard_events_total{fanonce_event="swept",fanonce_route=""} 7`)
	require.EqualValues(t, 7, next.Snapshot()[""].Counts["swept"])
}

type tracer struct{ server.Tracer }

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]guardprom.Config{
		"Config.Store":      {Store: (*memstore.Store)(nil)},
		"Config.StatsEvery": {StatsEvery: -1},
		"Config.Timeout":    {Timeout: -1},
		"Config.Buckets":    {Buckets: []float64{1, 1}},
		"Config.Next":       {Next: tracer{}},
	} {
		_, err := guardprom.New(cfg)
		var wrong *server.ConfigError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Field)
	}
	_, err := guardprom.New(guardprom.Config{Buckets: []float64{math.NaN()}})
	require.Error(t, err)
}

func BenchmarkObserve(b *testing.B) {
	c, _ := newCollector(b, guardprom.Config{})
	e := server.Event{Kind: server.EventClaimed, Route: "orders", Duration: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		c.Observe(b.Context(), e)
	}
}

// Observing allocates nothing.
func TestObserve_allocates(t *testing.T) {
	c, _ := newCollector(t, guardprom.Config{})
	ctx := t.Context()
	for _, kind := range []server.EventKind{server.EventClaimed, server.EventMiss, server.EventSettled} {
		e := server.Event{Kind: kind, Route: "orders", Duration: time.Millisecond}
		c.Observe(ctx, e)
		require.Zero(t, testing.AllocsPerRun(100, func() { c.Observe(ctx, e) }), kind.String())
	}
}

func Example() {
	s := memstore.New()
	metrics, err := guardprom.New(guardprom.Config{Store: s})
	if err != nil {
		panic(err)
	}
	guard, err := server.NewGuard(s, server.Unscoped, server.Config{Observer: metrics})
	if err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	orders, err := guard.Handler(server.Keyed, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		panic(err)
	}
	send(orders, "order-1", "tea")
	send(orders, "order-1", "tea")
	families, _ := registry.Gather()
	for _, f := range families {
		if f.GetName() == "fanonce_store_records" {
			fmt.Println(f.GetMetric()[1].GetGauge().GetValue(), "record completed")
		}
	}
	// Output: 1 record completed
}
