package guardotel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardotel"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

// A lab has what the spans and metrics of one process go to.
type lab struct {
	spans   *tracetest.SpanRecorder
	traces  *sdktrace.TracerProvider
	reader  *sdkmetric.ManualReader
	observe *guardotel.Observer
}

func newLab(tb testing.TB, s store.Store) *lab {
	tb.Helper()
	l := &lab{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	l.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l.spans))
	var err error
	l.observe, err = guardotel.New(guardotel.Config{
		Name: "a", StatsEvery: time.Hour,
		TracerProvider: l.traces, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader)), Store: s,
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.observe.Close()) })
	return l
}

func (l *lab) route(tb testing.TB, s store.Store, effect server.Effect, next http.HandlerFunc) http.Handler {
	tb.Helper()
	g, err := server.NewGuard(s, server.Unscoped, server.Config{Observer: l.observe, Wait: -1})
	require.NoError(tb, err)
	h, err := g.Route(server.Route{Name: "orders", Effect: effect}, next)
	require.NoError(tb, err)
	return h
}

// span returns the n-th span of that name.
func (l *lab) span(tb testing.TB, name string, n int) sdktrace.ReadOnlySpan {
	tb.Helper()
	for _, s := range l.spans.Ended() {
		if s.Name() == name {
			if n--; n == 0 {
				return s
			}
		}
	}
	tb.Fatalf("no such span %q", name)
	return nil
}

func attr(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func send(ctx context.Context, h http.Handler, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The call is in its caller's trace and the run in the call's. A replay, in another trace and through another guard,
// has a link to that run. No span has the key.
func TestSpans(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	first, second := newLab(t, s), newLab(t, s)
	var inHandler trace.SpanContext
	handler := func(_ http.ResponseWriter, r *http.Request) { inHandler = trace.SpanContextFromContext(r.Context()) }
	ctx, caller := first.traces.Tracer("test").Start(t.Context(), "caller")
	send(ctx, first.route(t, s, server.Keyed, handler), "secret-key", "tea")
	w := send(t.Context(), second.route(t, s, server.Keyed, handler), "secret-key", "tea")
	require.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))

	call, run, replay := first.span(t, "guard orders", 1), first.span(t, "run orders", 1), second.span(t, "guard orders", 1)
	require.Equal(t, caller.SpanContext().SpanID(), call.Parent().SpanID())
	require.Equal(t, call.SpanContext().SpanID(), run.Parent().SpanID())
	require.Equal(t, run.SpanContext(), inHandler)
	require.Equal(t, "miss", attr(call, "fanonce.outcome"))
	require.Equal(t, "keyed", attr(call, "fanonce.effect"))
	require.Len(t, attr(call, "fanonce.key.digest"), 16)
	require.Equal(t, "1", attr(run, "fanonce.fence"))
	require.Empty(t, call.Links())

	require.Equal(t, "hit", attr(replay, "fanonce.outcome"))
	require.Len(t, replay.Links(), 1)
	require.Equal(t, run.SpanContext().SpanID(), replay.Links()[0].SpanContext.SpanID())
	require.Equal(t, run.SpanContext().TraceID(), replay.Links()[0].SpanContext.TraceID())
	require.NotEqual(t, run.SpanContext().TraceID(), replay.SpanContext().TraceID())
	require.Equal(t, attr(call, "fanonce.key.digest"), attr(replay, "fanonce.key.digest"))
	for _, span := range append(first.spans.Ended(), second.spans.Ended()...) {
		require.NotContains(t, fmt.Sprint(span.Name(), span.Attributes(), span.Events(), span.Status(), span.Links()), "secret")
	}
}

// A run that is not sampled leaves no trace context, and a stored text that is none makes no link.
func TestTrace(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	require.Empty(t, l.observe.Trace(t.Context()))
	never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	ctx, _ := never.Tracer("test").Start(t.Context(), "unsampled")
	require.Empty(t, l.observe.Trace(ctx))
	for _, text := range []string{"", "tea", "00-0-0-01", "00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-01"} {
		ctx := l.observe.CallStarted(t.Context(), server.CallEvent{Route: "orders"})
		l.observe.Observe(ctx, server.Event{Kind: server.EventHit, Route: "orders", Trace: text})
		l.observe.CallEnded(ctx)
	}
	for _, span := range l.spans.Ended() {
		require.Empty(t, span.Links())
	}
}

// A sampler sees the attributes that a span begins with, and no other.
type sampler struct{ seen []attribute.KeyValue }

func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s.seen = p.Attributes
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

func (*sampler) Description() string { return "drops all" }

// A sampler can choose by guard, route and effect.
func TestSpans_sampler(t *testing.T) {
	t.Parallel()
	seen := new(sampler)
	o, err := guardotel.New(guardotel.Config{Name: "a", TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(seen))})
	require.NoError(t, err)
	want := []attribute.KeyValue{
		attribute.String("fanonce.guard", "a"), attribute.String("fanonce.route", "orders"), attribute.String("fanonce.effect", "keyed"),
	}
	e := server.CallEvent{Route: "orders", Effect: server.Keyed}
	for _, start := range []func(context.Context, server.CallEvent) context.Context{o.CallStarted, o.RunStarted} {
		seen.seen = nil
		start(t.Context(), e)
		require.Equal(t, want, seen.seen)
	}
}

// Refusals and failures are errors, by their codes alone.
func TestSpans_failures(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	l := newLab(t, s)
	h := l.route(t, s, server.Keyed, func(http.ResponseWriter, *http.Request) {})
	send(t.Context(), h, "k", "tea")
	send(t.Context(), h, "k", "coffee")
	refused := l.span(t, "guard orders", 2)
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "key-reused"}, refused.Status())
	require.Equal(t, "key-reused", attr(refused, "error.type"))

	bad := l.route(t, s, server.Opaque, func(http.ResponseWriter, *http.Request) { panic("secret tea") })
	require.Panics(t, func() { send(t.Context(), bad, "k2", "tea") })
	run := l.span(t, "run orders", 2)
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "failed"}, run.Status())
	require.Equal(t, "fanonce.unknown", run.Events()[0].Name)
	require.NotContains(t, fmt.Sprint(run.Attributes(), run.Events(), run.Status()), "secret")
	l.span(t, "guard orders", 3) // it ended too
}

// numbers are the values of the metrics, by name and attributes.
func (l *lab) numbers(tb testing.TB) (values map[string]float64, exemplars int) {
	tb.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(tb, l.reader.Collect(tb.Context(), &all))
	values = make(map[string]float64)
	key := func(name string, set attribute.Set) string {
		return name + "{" + set.Encoded(attribute.DefaultEncoder()) + "}"
	}
	var metrics []metricdata.Metrics
	for _, scope := range all.ScopeMetrics { // none: nothing is known yet
		metrics = append(metrics, scope.Metrics...)
	}
	for _, m := range metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				values[key(m.Name, p.Attributes)] = float64(p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				values[key(m.Name, p.Attributes)] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				values[key(m.Name, p.Attributes)] = float64(p.Count)
				exemplars += len(p.Exemplars)
			}
		}
	}
	return values, exemplars
}

// The histograms have exemplars of the runs' traces.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	l := newLab(t, s)
	h := l.route(t, s, server.Opaque, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "bad" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	for _, key := range []string{"k", "k", "bad", "bad"} {
		send(t.Context(), h, key, "tea")
	}
	l.observe.Observe(t.Context(), server.Event{Kind: server.EventSwept, Count: 7})
	require.Eventually(t, func() bool { // the first reading only asks for the numbers of the store
		got, _ := l.numbers(t)
		_, up := got["fanonce.store.up{fanonce.store=a}"]
		_, counted := got["fanonce.store.records{fanonce.state=unknown,fanonce.store=a}"]
		_, estimated := got["fanonce.store.async_standbys{fanonce.store=a}"]
		return up && counted && estimated
	}, time.Minute, time.Millisecond)
	got, exemplars := l.numbers(t)
	for name, want := range map[string]float64{
		"fanonce.guard.events{fanonce.event=hit,fanonce.guard=a,fanonce.route=orders}":            1,
		"fanonce.guard.events{fanonce.event=miss,fanonce.guard=a,fanonce.route=orders}":           2,
		"fanonce.guard.events{fanonce.event=failed,fanonce.guard=a,fanonce.route=orders}":         1,
		"fanonce.guard.events{fanonce.event=swept,fanonce.guard=a,fanonce.route=}":                7,
		"fanonce.guard.refusals{error.type=outcome-unknown,fanonce.guard=a,fanonce.route=orders}": 1,
		"fanonce.guard.claim.duration{fanonce.guard=a,fanonce.route=orders}":                      2,
		"fanonce.guard.pending.duration{fanonce.guard=a,fanonce.route=orders}":                    1,
		"fanonce.store.attention{fanonce.reason=unknown,fanonce.store=a}":                         1,
		"fanonce.store.records{fanonce.state=completed,fanonce.store=a}":                          1,
		"fanonce.store.records{fanonce.state=unknown,fanonce.store=a}":                            1,
		"fanonce.store.records{fanonce.state=quarantined,fanonce.store=a}":                        0,
		"fanonce.store.async_standbys{fanonce.store=a}":                                           0,
		"fanonce.store.up{fanonce.store=a}":                                                       1,
	} {
		value, found := got[name]
		require.True(t, found, "%s is not in %v", name, got)
		require.Equal(t, want, value, name)
	}
	require.NotZero(t, exemplars)
}

type tracer struct{ server.Tracer }

func TestNew_refuses(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]guardotel.Config{
		"Config.Store":      {Store: (*memstore.Store)(nil)},
		"Config.Next":       {Next: tracer{}},
		"Config.Name":       {Name: "tea\n"},
		"Config.StatsEvery": {StatsEvery: -1},
	} {
		_, err := guardotel.New(cfg)
		var wrong *server.ConfigError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Field)
	}
}

// unsampled is an observer of a process whose sampler takes nothing.
func unsampled(tb testing.TB) *guardotel.Observer {
	tb.Helper()
	o, err := guardotel.New(guardotel.Config{
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(), Next: server.NewMetrics(),
	})
	require.NoError(tb, err)
	return o
}

// call is what a guard tells of one call that runs.
func call(o *guardotel.Observer) {
	e := server.CallEvent{Route: "orders", Effect: server.Keyed}
	ctx := o.CallStarted(context.Background(), e)
	o.Observe(ctx, server.Event{Kind: server.EventClaimed, Route: "orders", Duration: time.Millisecond})
	e.Fence = 1
	run := o.RunStarted(ctx, e)
	_ = o.Trace(run)
	o.Observe(run, server.Event{Kind: server.EventSettled, Route: "orders", Duration: time.Millisecond})
	o.RunEnded(run)
	o.Observe(ctx, server.Event{Kind: server.EventMiss, Route: "orders"})
	o.CallEnded(ctx)
}

// A call that nobody samples costs two ctxs with their spans, and no attribute, digest or text.
func TestUnsampled_allocates(t *testing.T) {
	o := unsampled(t)
	call(o)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { call(o) }), 4.0)
}

func BenchmarkUnsampled(b *testing.B) {
	o := unsampled(b)
	b.ReportAllocs()
	for b.Loop() {
		call(o)
	}
}
