package guardprom_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
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
	"github.com/stretchr/testify/assert"
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
	c, r := newCollector(t, guardprom.Config{Name: "a", Store: s, StatsEvery: time.Hour})
	h := route(t, s, c, server.Keyed, http.StatusOK)
	send(h, "secret-key", "tea")
	send(h, "secret-key", "tea")
	send(h, "secret-key", "coffee")
	send(route(t, s, c, server.Opaque, http.StatusInternalServerError), "other-key", "tea")
	untilRead(t, r)
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(`
# HELP fanonce_guard_refusals_total Calls that were refused, by problem code.
# TYPE fanonce_guard_refusals_total counter
fanonce_guard_refusals_total{error_type="key-reused",guard="a",route="orders"} 1
# HELP fanonce_guard_events_total Events of the guard, by kind. Of swept it counts records.
# TYPE fanonce_guard_events_total counter
fanonce_guard_events_total{event="claimed",guard="a",route="orders"} 2
fanonce_guard_events_total{event="failed",guard="a",route="orders"} 1
fanonce_guard_events_total{event="hit",guard="a",route="orders"} 1
fanonce_guard_events_total{event="mismatch",guard="a",route="orders"} 1
fanonce_guard_events_total{event="miss",guard="a",route="orders"} 2
fanonce_guard_events_total{event="settled",guard="a",route="orders"} 1
fanonce_guard_events_total{event="unknown",guard="a",route="orders"} 1
# HELP fanonce_store_async_standbys Standbys that can lack an answer that was given.
# TYPE fanonce_store_async_standbys gauge
fanonce_store_async_standbys{store="a"} 0
# HELP fanonce_store_attention Keys that need a person, by reason.
# TYPE fanonce_store_attention gauge
fanonce_store_attention{reason="dead_letter",store="a"} 0
fanonce_store_attention{reason="quarantined",store="a"} 0
fanonce_store_attention{reason="unknown",store="a"} 1
# HELP fanonce_store_estimated_records Records, by the store's own statistics.
# TYPE fanonce_store_estimated_records gauge
fanonce_store_estimated_records{store="a"} 2
# HELP fanonce_store_oldest_in_progress_seconds Age of the oldest record in progress; 0 if there is none.
# TYPE fanonce_store_oldest_in_progress_seconds gauge
fanonce_store_oldest_in_progress_seconds{store="a"} 0
# HELP fanonce_store_records Records by state, counted.
# TYPE fanonce_store_records gauge
fanonce_store_records{state="cancelled",store="a"} 0
fanonce_store_records{state="completed",store="a"} 1
fanonce_store_records{state="in_progress",store="a"} 0
fanonce_store_records{state="quarantined",store="a"} 0
fanonce_store_records{state="released",store="a"} 0
fanonce_store_records{state="unknown",store="a"} 1
# HELP fanonce_store_size_bytes Size of the tables with their indexes; 0 if the store cannot tell.
# TYPE fanonce_store_size_bytes gauge
fanonce_store_size_bytes{store="a"} 0
# HELP fanonce_store_sweep_lag_seconds Time that the first record to be swept has waited for it; 0 if none waits.
# TYPE fanonce_store_sweep_lag_seconds gauge
fanonce_store_sweep_lag_seconds{store="a"} 0
# HELP fanonce_store_up 1 if the store answered when it was asked last, else 0.
# TYPE fanonce_store_up gauge
fanonce_store_up{store="a"} 1
`), "fanonce_guard_events_total", "fanonce_guard_refusals_total", "fanonce_store_async_standbys", "fanonce_store_attention",
		"fanonce_store_estimated_records", "fanonce_store_oldest_in_progress_seconds", "fanonce_store_records", "fanonce_store_size_bytes",
		"fanonce_store_sweep_lag_seconds", "fanonce_store_up"))
	text := scrape(t, r)
	require.Contains(t, text, `fanonce_guard_claim_duration_seconds_count{guard="a",route="orders"} 2`)
	require.Contains(t, text, `fanonce_guard_pending_duration_seconds_count{guard="a",route="orders"} 1`)
	require.NotContains(t, text, "secret-key")
	problems, err := testutil.GatherAndLint(r)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// untilRead scrapes until the numbers of the store are there: the first scrape only asks for them.
func untilRead(tb testing.TB, r *prometheus.Registry) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		return strings.Count(scrape(tb, r), "fanonce_store_read_age_seconds{") == 3
	}, time.Minute, time.Millisecond)
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

type traceKey struct{}

// The exemplar names the trace of the event's call. Labels that are too long are left out, and harm nothing.
func TestCollector_exemplar(t *testing.T) {
	t.Parallel()
	c, r := newCollector(t, guardprom.Config{Name: "a", Exemplar: func(ctx context.Context) prometheus.Labels {
		id, _ := ctx.Value(traceKey{}).(string)
		return prometheus.Labels{"trace_id": id}
	}})
	event := server.Event{Kind: server.EventClaimed, Route: "orders", Duration: time.Millisecond}
	c.Observe(context.WithValue(t.Context(), traceKey{}, strings.Repeat("x", prometheus.ExemplarMaxRunes+1)), event)
	require.NotContains(t, scrape(t, r), "trace_id")
	c.Observe(context.WithValue(t.Context(), traceKey{}, "0af7651916cd43dd8448eb211c80319c"), event)
	text := scrape(t, r)
	require.Contains(t, text, `# {trace_id="0af7651916cd43dd8448eb211c80319c"} 0.001`)
	require.Contains(t, text, `fanonce_guard_claim_duration_seconds_count{guard="a",route="orders"} 2`)
}

// A sweep counts its records, and the next observer hears of it.
func TestCollector_next(t *testing.T) {
	t.Parallel()
	next := server.NewMetrics()
	c, r := newCollector(t, guardprom.Config{Name: "a", Next: next})
	c.Observe(t.Context(), server.Event{Kind: server.EventSwept, Count: 7})
	require.Contains(t, scrape(t, r), `fanonce_guard_events_total{event="swept",guard="a",route=""} 7`)
	require.EqualValues(t, 7, next.Snapshot()[""].Counts["swept"])
}

type tracer struct{ server.Tracer }

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]guardprom.Config{
		"Config.Store":      {Store: (*memstore.Store)(nil)},
		"Config.StatsEvery": {StatsEvery: -1},
		"Config.Name":       {Name: "tea\n"},
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
	metrics, err := guardprom.New(guardprom.Config{Name: "orders", Store: s})
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
		if f.GetName() == "fanonce_guard_events_total" {
			for _, m := range f.GetMetric() {
				fmt.Println(m.GetCounter().GetValue(), m.GetLabel()[0].GetValue())
			}
		}
	}
	// Output:
	// 1 claimed
	// 1 hit
	// 1 miss
	// 1 settled
}

// An Exemplar panics, waits for another call, or asks the guard and the registry. A panic is logged, and loses the event;
// no answer changes.
func TestCallbacks_exemplar(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"panics", "is slow", "asks the guard"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := memstore.New()
			var log bytes.Buffer
			var g *server.Guard
			var h http.Handler
			var r *prometheus.Registry
			var calls atomic.Int64
			do := map[string]func(){
				"is slow": func() { send(h, "other", "tea") },
				"asks the guard": func() {
					_, err := g.ListStuck(t.Context(), store.ListRequest{})
					assert.NoError(t, err)
					_, err = r.Gather()
					assert.NoError(t, err)
				},
			}[how]
			c, r := newCollector(t, guardprom.Config{Name: "a", Exemplar: func(context.Context) prometheus.Labels {
				if calls.Add(1) > 1 {
					return nil
				}
				if how == "panics" {
					panic("boom")
				}
				within(t, do)
				return prometheus.Labels{"trace_id": "7"}
			}})
			g, err := server.NewGuard(s, server.Unscoped, server.Config{Observer: c, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			runs := 0
			h, err = g.Route(server.Route{Name: "orders", Effect: server.Keyed}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
			require.NoError(t, err)
			within(t, func() { send(h, "k", "tea") })
			within(t, func() { send(h, "k", "tea") })
			require.Equal(t, map[bool]int{true: 2, false: 1}[how == "is slow"], runs)
			text := scrape(t, r)
			require.Equal(t, how == "panics", strings.Contains(log.String(), "Observer panicked"))
			require.Equal(t, how != "panics", strings.Contains(text, `# {trace_id="7"}`))
			require.Contains(t, text, `fanonce_guard_events_total{event="hit",guard="a",route="orders"} 1`)
		})
	}
}

// within fails the test if do takes half a minute, as in a deadlock.
func within(t *testing.T, do func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		defer cancel()
		do()
	}()
	<-ctx.Done()
	assert.ErrorIs(t, ctx.Err(), context.Canceled, "a call does not return")
}
