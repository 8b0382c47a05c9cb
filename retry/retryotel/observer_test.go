package retryotel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	"github.com/fanonce/fanonce/retry/retryotel"
	"github.com/fanonce/fanonce/sdk"
)

// A lab is a client whose spans and metrics are kept, and a callee.
type lab struct {
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
	client *sdk.Client

	mu      sync.Mutex
	parents []string // the traceparent of each request
}

func newLab(tb testing.TB, callee http.HandlerFunc) *lab {
	tb.Helper()
	l := &lab{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	telemetry, err := retryotel.New(retryotel.Config{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l.spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader)),
	})
	require.NoError(tb, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.parents = append(l.parents, r.Header.Get("Traceparent"))
		l.mu.Unlock()
		callee(w, r)
	}))
	tb.Cleanup(s.Close)
	l.client, err = sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"payment": {URL: s.URL}},
		Retry: retry.Config{
			Observer: telemetry, Prepare: telemetry.Prepare,
			Backoff: retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond},
		},
	})
	require.NoError(tb, err)
	return l
}

func (l *lab) send(ctx context.Context) error {
	ctx = childkey.NewContext(ctx, childkey.MustParse("secret-parent"))
	_, err := l.client.Send(ctx, sdk.Request{Service: "payment", Operation: "charge", Method: http.MethodPost, Path: "/charges"})
	return err
}

func attr(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// Each attempt is a client span below the span of its call, and the callee hears of it.
func TestSpans(t *testing.T) {
	t.Parallel()
	requests := 0
	l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
	})
	require.NoError(t, l.send(t.Context()))
	spans := l.spans.Ended()
	require.Len(t, spans, 3)
	first, second, call := spans[0], spans[1], spans[2]
	require.Equal(t, "attempt payment charge", first.Name())
	require.Equal(t, "call payment charge", call.Name())
	for i, attempt := range []sdktrace.ReadOnlySpan{first, second} {
		require.Equal(t, trace.SpanKindClient, attempt.SpanKind())
		require.Equal(t, call.SpanContext().SpanID(), attempt.Parent().SpanID())
		in := attempt.SpanContext()
		require.Equal(t, fmt.Sprintf("00-%s-%s-01", in.TraceID(), in.SpanID()), l.parents[i])
	}
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "503"}, first.Status())
	require.Equal(t, "503", attr(first, "http.response.status_code"))
	require.Equal(t, "1", attr(second, "http.request.resend_count"))
	require.Equal(t, "2", attr(call, "fanonce.attempts"))
	require.Equal(t, "true", attr(call, "fanonce.replayed"))
	require.Equal(t, codes.Unset, call.Status().Code)
	require.Len(t, attr(call, "fanonce.key.digest"), 16)
	for _, span := range spans {
		require.NotContains(t, fmt.Sprint(span.Attributes(), span.Status(), span.Events()), "secret")
	}
}

// A nameSampler keeps the spans of one operation. It sees only the attributes that a span begins with.
type nameSampler struct{ operation string }

func (s nameSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	for _, a := range p.Attributes {
		if a.Key == "fanonce.operation" && a.Value.AsString() == s.operation {
			return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
		}
	}
	return sdktrace.SamplingResult{Decision: sdktrace.Drop}
}

func (nameSampler) Description() string { return "by name" }

func TestSpans_samplersSeeTheNames(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]int{"charge": 2, "refund": 0} {
		spans := tracetest.NewSpanRecorder()
		o, err := retryotel.New(retryotel.Config{TracerProvider: sdktrace.NewTracerProvider(
			sdktrace.WithSampler(nameSampler{operation}), sdktrace.WithSpanProcessor(spans))})
		require.NoError(t, err)
		e := retry.Event{Service: "payment", Operation: "charge", Key: childkey.MustParse("k")}
		call := o.CallStarted(t.Context(), e)
		o.AttemptEnded(o.AttemptStarted(call, e), e)
		o.CallEnded(call, e)
		require.Len(t, spans.Ended(), want, operation)
	}
}

// A callee's refusal is named by its code, and a dead callee by the kind of the error. No text of an error is there.
func TestSpans_errors(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotency-Code", "key-reused")
		w.WriteHeader(http.StatusUnprocessableEntity)
	})
	require.Error(t, l.send(t.Context()))
	for _, span := range l.spans.Ended() {
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "key-reused"}, span.Status(), span.Name())
		require.Equal(t, "Rejected", attr(span, "fanonce.outcome"))
	}
	dead := newLab(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, dead.send(ctx))
	require.Equal(t, "connection", attr(dead.spans.Ended()[0], "error.type"))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	requests := 0
	l := newLab(t, func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
	})
	require.NoError(t, l.send(t.Context()))
	var all metricdata.ResourceMetrics
	require.NoError(t, l.reader.Collect(t.Context(), &all))
	counts := make(map[string]uint64)
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				counts[m.Name] += p.Count
				require.NotEmpty(t, p.Exemplars, m.Name)
			}
		case metricdata.Sum[int64]:
			counts[m.Name] = uint64(data.DataPoints[0].Value)
		}
	}
	require.Equal(t, map[string]uint64{
		"fanonce.retry.call.duration": 1, "fanonce.retry.attempt.duration": 2, "fanonce.retry.replays": 1,
	}, counts)
}

// events counts what an observer hears of.
type events struct{ begun, calls, attempts int }

func (n *events) CallStarted(ctx context.Context, _ retry.Event) context.Context {
	n.begun++
	return ctx
}

func (n *events) AttemptStarted(ctx context.Context, _ retry.Event) context.Context {
	n.begun++
	return ctx
}

func (n *events) AttemptEnded(context.Context, retry.Event) { n.attempts++ }
func (n *events) CallEnded(context.Context, retry.Event)    { n.calls++ }

func unsampled(tb testing.TB, next retry.Observer) *retryotel.Observer {
	tb.Helper()
	o, err := retryotel.New(retryotel.Config{
		TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider(), Next: next,
	})
	require.NoError(tb, err)
	return o
}

// call is what a client tells of one call.
func call(o *retryotel.Observer) {
	ctx := o.CallStarted(context.Background(), retry.Event{Service: "payment", Operation: "charge"})
	in := o.AttemptStarted(ctx, retry.Event{Service: "payment", Operation: "charge", Attempt: retry.Attempt{Number: 1}})
	o.AttemptEnded(in, retry.Event{Service: "payment", Operation: "charge", Outcome: retry.Completed})
	o.CallEnded(ctx, retry.Event{Service: "payment", Operation: "charge", Outcome: retry.Completed, Replayed: true})
}

// A call that nobody samples computes no digest and no attribute, and the next observer hears of it.
func TestUnsampled_allocates(t *testing.T) {
	var n events
	o := unsampled(t, &n)
	call(o)
	require.Equal(t, events{2, 1, 1}, n)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { call(o) }), 4.0)
}

func BenchmarkUnsampled(b *testing.B) {
	o := unsampled(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		call(o)
	}
}

func Example() {
	spans := tracetest.NewSpanRecorder() // in a service: an exporter
	telemetry, err := retryotel.New(retryotel.Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	if err != nil {
		panic(err)
	}
	payment := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer payment.Close()
	client, err := sdk.New(sdk.Config{
		Services: map[string]sdk.Service{"payment": {URL: payment.URL, Profile: retry.Unguarded()}},
		Retry:    retry.Config{Observer: telemetry, Prepare: telemetry.Prepare},
	})
	if err != nil {
		panic(err)
	}
	ctx := childkey.NewContext(context.Background(), childkey.MustParse("order-1"))
	_, err = client.Send(ctx, sdk.Request{Service: "payment", Operation: "charge", Method: http.MethodPost, Path: "/charges"})
	fmt.Println(err)
	for _, span := range spans.Ended() {
		fmt.Println(span.Name())
	}
	// Output:
	// <nil>
	// attempt payment charge
	// call payment charge
}
