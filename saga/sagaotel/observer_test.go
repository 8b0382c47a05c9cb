package sagaotel_test

import (
	"context"
	"errors"
	"fmt"
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

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/saga/sagaotel"
)

// A process has an engine whose spans and metrics are kept.
type process struct {
	spans   *tracetest.SpanRecorder
	traces  *sdktrace.TracerProvider
	reader  *sdkmetric.ManualReader
	observe *sagaotel.Observer
	engine  *saga.Engine
}

func newProcess(tb testing.TB, j journal.Journal, d saga.AnyDefinition) *process {
	tb.Helper()
	p := &process{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	p.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p.spans))
	var err error
	p.observe, err = sagaotel.New(sagaotel.Config{
		Name: "a", TracerProvider: p.traces, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(p.reader)),
	})
	require.NoError(tb, err)
	p.engine, err = saga.Open(tb.Context(), j, saga.Config{
		Definitions: []saga.AnyDefinition{d}, Observer: p.observe, Poll: 5 * time.Millisecond,
		Backoff: retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond},
	})
	require.NoError(tb, err)
	require.NoError(tb, p.observe.Watch(p.engine))
	tb.Cleanup(func() {
		require.NoError(tb, p.observe.Close())
		_ = p.engine.Close(context.Background())
	})
	return p
}

func (p *process) span(tb testing.TB, name string) sdktrace.ReadOnlySpan {
	tb.Helper()
	for _, s := range p.spans.Ended() {
		if s.Name() == name {
			return s
		}
	}
	tb.Fatalf("no span %q", name)
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

// A saga whose process goes away in the middle of a step is continued by another process, in the same trace. Its
// first step is refused once. No span has the key or the input.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	j := memjournal.New()
	running := make(chan struct{}, 1)
	d := saga.MustDefine("checkout", 1, func(b *saga.Builder[string, int]) {
		saga.Return(b, saga.StepFunc(b, "payment.charge", b.Input(), func(ctx context.Context, c saga.Call[string]) (int, error) {
			if !c.Resumed {
				running <- struct{}{}
				<-ctx.Done()
				return 0, errors.New("secret error")
			}
			return 7, nil
		}).Output())
	})
	first := newProcess(t, j, d)
	ctx, request := first.traces.Tracer("test").Start(t.Context(), "POST /orders")
	_, err := d.Start(ctx, first.engine, childkey.MustParse("secret-key"), "secret input")
	require.NoError(t, err)
	<-running
	over, cancel := context.WithCancel(context.Background())
	cancel()
	require.Error(t, first.engine.Close(over))

	second := newProcess(t, j, d)
	out, err := d.Run(t.Context(), second.engine, childkey.MustParse("secret-key"), "secret input")
	require.NoError(t, err)
	require.Equal(t, 7, out)
	require.NoError(t, second.engine.Close(t.Context()))

	want := request.SpanContext()
	for _, p := range []*process{first, second} {
		run, step := p.span(t, "saga checkout"), p.span(t, "step checkout payment.charge")
		require.Equal(t, want.TraceID(), run.SpanContext().TraceID())
		require.Equal(t, want.SpanID(), run.Parent().SpanID())
		require.True(t, run.Parent().IsRemote())
		require.Equal(t, run.SpanContext().SpanID(), step.Parent().SpanID())
	}
	require.Equal(t, codes.Error, first.span(t, "step checkout payment.charge").Status().Code)
	require.Equal(t, "Completed", attr(second.span(t, "step checkout payment.charge"), "fanonce.outcome"))
	require.Equal(t, "completed", attr(second.span(t, "saga checkout"), "fanonce.saga.status"))
	for _, s := range append(first.spans.Ended(), second.spans.Ended()...) {
		require.NotContains(t, fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status()), "secret")
	}
}

// A saga of a request that is not sampled is not sampled either, by any engine.
func TestTrace_unsampled(t *testing.T) {
	t.Parallel()
	o, err := sagaotel.New(sagaotel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample()))),
	})
	require.NoError(t, err)
	require.Empty(t, o.Trace(t.Context()))
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer("test").Start(t.Context(), "request")
	text := o.Trace(ctx)
	require.Contains(t, text, span.SpanContext().TraceID().String())
	ctx = o.RunStarted(t.Context(), journal.RunEvent{Name: "checkout", Trace: text})
	require.False(t, trace.SpanContextFromContext(ctx).IsSampled())
	require.Equal(t, span.SpanContext().TraceID(), trace.SpanContextFromContext(ctx).TraceID())
	ctx = o.RunStarted(t.Context(), journal.RunEvent{Name: "checkout", Trace: "tea"})
	require.True(t, trace.SpanContextFromContext(ctx).IsSampled(), "a trace of its own")
}

func (p *process) numbers(tb testing.TB) map[string]float64 {
	tb.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(tb, p.reader.Collect(tb.Context(), &all))
	values := make(map[string]float64)
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
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				values[key(m.Name, p.Attributes)] = float64(p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				values[key(m.Name, p.Attributes)] = float64(p.Count)
			}
		}
	}
	return values
}

// A saga whose undo fails for good is stuck, in the metrics and as an error in its span.
func TestStuck(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("checkout", 1, func(b *saga.Builder[int, int]) {
		hold := saga.StepFunc(b, "inventory.reserve", b.Input(), func(context.Context, saga.Call[int]) (int, error) { return 1, nil }).
			UndoFunc("inventory.release", func(context.Context, saga.UndoCall[int, int]) error { return saga.Rejected(errors.New("no")) })
		saga.Return(b, saga.StepFunc(b, "payment.charge", hold.Output(), func(context.Context, saga.Call[int]) (int, error) {
			return 0, saga.Rejected(errors.New("declined"))
		}).UndoFunc("payment.refund", func(context.Context, saga.UndoCall[int, int]) error { return nil }).Output())
	})
	p := newProcess(t, memjournal.New(), d)
	_, err := d.Run(t.Context(), p.engine, childkey.MustParse("k"), 3)
	require.ErrorIs(t, err, saga.ErrStuck)
	require.Eventually(t, func() bool { // the first reading only asks for the numbers of the journal
		return p.numbers(t)["fanonce.saga.journal.up{fanonce.saga.journal=a}"] == 1
	}, time.Minute, time.Millisecond)
	got := p.numbers(t)
	for name, want := range map[string]float64{
		"fanonce.saga.sagas{fanonce.saga.journal=a,fanonce.saga.status=stuck}":        1,
		"fanonce.saga.sagas{fanonce.saga.journal=a,fanonce.saga.status=running}":      0,
		"fanonce.saga.moves{fanonce.saga.name=checkout,fanonce.saga.status=running}":  1,
		"fanonce.saga.moves{fanonce.saga.name=checkout,fanonce.saga.status=stuck}":    1,
		"fanonce.saga.duration{fanonce.saga.name=checkout,fanonce.saga.status=stuck}": 1,
		"fanonce.saga.journal.up{fanonce.saga.journal=a}":                             1,
		"fanonce.saga.unowned{fanonce.saga.journal=a}":                                0,
	} {
		value, found := got[name]
		require.True(t, found, "%s is not in %v", name, got)
		require.Equal(t, want, value, name)
	}
	require.NoError(t, p.engine.Close(t.Context()))
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "stuck"}, p.span(t, "saga checkout").Status())
}

// Kinds of events are in snake case, and those of several sagas count each.
func TestMetrics_events(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("checkout", 1, func(b *saga.Builder[int, int]) {
		saga.Return(b, saga.StepFunc(b, "a.b", b.Input(), func(context.Context, saga.Call[int]) (int, error) { return 1, nil }).Output())
	})
	p := newProcess(t, memjournal.New(), d)
	p.observe.Observe(t.Context(), saga.Event{Kind: saga.EventTookOver, Count: 3})
	p.observe.Observe(t.Context(), saga.Event{Kind: saga.EventSweepError, Err: errors.New("no")})
	p.observe.Observe(t.Context(), saga.Event{Kind: saga.EventMoved, Name: "x", From: journal.Running, To: journal.Running})
	got := p.numbers(t)
	require.EqualValues(t, 3, got["fanonce.saga.events{fanonce.event=took_over}"])
	require.EqualValues(t, 1, got["fanonce.saga.events{fanonce.event=sweep_error}"])
	require.NotContains(t, got, "fanonce.saga.moves{fanonce.saga.name=x,fanonce.saga.status=running}")
	require.NotContains(t, got, "fanonce.saga.events{fanonce.event=moved}")
}

// The items of a saga.Each are one kind of step: their names are data.
func TestItems(t *testing.T) {
	t.Parallel()
	d := saga.MustDefine("checkout", 1, func(b *saga.Builder[[]string, struct{}]) {
		saga.EachFunc(b, "a.b", b.Input(), func(name string) string { return name }, func(context.Context, saga.Call[string]) (int, error) {
			return 1, nil
		}).ReadOnly()
	})
	p := newProcess(t, memjournal.New(), d)
	_, err := d.Run(t.Context(), p.engine, childkey.MustParse("k"), []string{"tea"})
	require.NoError(t, err)
	require.Equal(t, "a.b[tea]", attr(p.span(t, "step checkout a.b[*]"), "fanonce.saga.step"))
	for name := range p.numbers(t) {
		require.NotContains(t, name, "tea")
	}
}

type tracer struct{ saga.Tracer }

func TestBadInput(t *testing.T) {
	t.Parallel()
	var wrong *sagaotel.ConfigError
	_, err := sagaotel.New(sagaotel.Config{Next: tracer{}})
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "Next", wrong.Field)
	_, err = sagaotel.New(sagaotel.Config{Name: "tea\n"})
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "Name", wrong.Field)
	o, err := sagaotel.New(sagaotel.Config{})
	require.NoError(t, err)
	require.ErrorAs(t, o.Watch(nil), &wrong)
	require.ErrorAs(t, o.Watch((*saga.Engine)(nil)), &wrong)
	require.NoError(t, o.Close())
}

// work is what an engine tells of a saga of one step.
func work(o *sagaotel.Observer) {
	ctx := o.RunStarted(context.Background(), journal.RunEvent{Name: "checkout"})
	e := saga.Event{Kind: saga.EventAttempt, Name: "checkout", Step: "payment.charge", Outcome: retry.Completed}
	step := o.StepStarted(ctx, e)
	o.StepEnded(step, e)
	o.Observe(ctx, e)
	o.Observe(ctx, saga.Event{Kind: saga.EventMoved, Name: "checkout", From: journal.Running, To: journal.Completed})
	o.RunEnded(ctx)
}

func unsampled(tb testing.TB) *sagaotel.Observer {
	tb.Helper()
	o, err := sagaotel.New(sagaotel.Config{
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(), Next: saga.NewMetrics(),
	})
	require.NoError(tb, err)
	return o
}

// A saga that nobody samples computes no attribute: it allocates two ctxs and two names.
func TestUnsampled_allocates(t *testing.T) {
	o := unsampled(t)
	work(o)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { work(o) }), 4.0)
}

func BenchmarkUnsampled(b *testing.B) {
	o := unsampled(b)
	b.ReportAllocs()
	for b.Loop() {
		work(o)
	}
}

func Example() {
	spans := tracetest.NewSpanRecorder() // in a service: an exporter
	telemetry, err := sagaotel.New(sagaotel.Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	if err != nil {
		panic(err)
	}
	defer telemetry.Close() //nolint:errcheck // the process ends
	checkout := saga.MustDefine("checkout", 1, func(b *saga.Builder[int, int]) {
		saga.Return(b, saga.StepFunc(b, "payment.charge", b.Input(), func(_ context.Context, c saga.Call[int]) (int, error) {
			return c.Input, nil
		}).Output())
	})
	ctx := context.Background()
	engine, err := saga.Open(ctx, memjournal.New(), saga.Config{Observer: telemetry, Definitions: []saga.AnyDefinition{checkout}})
	if err != nil {
		panic(err)
	}
	if err := telemetry.Watch(engine); err != nil {
		panic(err)
	}
	fmt.Println(checkout.Run(ctx, engine, childkey.MustParse("order-1"), 1300))
	_ = engine.Close(ctx)
	for _, span := range spans.Ended() {
		fmt.Println(span.Name())
	}
	// Output:
	// 1300 <nil>
	// step checkout payment.charge
	// saga checkout
}
