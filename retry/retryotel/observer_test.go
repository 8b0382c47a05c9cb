package retryotel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
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

// A sampler remembers the attributes that spans begin with: it sees no others.
type sampler struct {
	mu    sync.Mutex
	began map[string][]string // by the span's name
}

func (s *sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	var attrs []string
	for _, a := range p.Attributes {
		attrs = append(attrs, string(a.Key)+"="+a.Value.String())
	}
	s.began[fmt.Sprint(p.Name, " ", len(s.began))] = attrs
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
}

func (*sampler) Description() string { return "all" }

// attributes returns those of a span, without ours.
func attributes(s sdktrace.ReadOnlySpan) []string {
	var attrs []string
	for _, a := range s.Attributes() {
		if !strings.HasPrefix(string(a.Key), "fanonce.") {
			attrs = append(attrs, string(a.Key)+"="+a.Value.String())
		}
	}
	return attrs
}

// twice makes a call with two attempts over a transport, and returns what a sampler saw, and the spans.
func twice(t *testing.T, url string, over http.RoundTripper) (*sampler, []sdktrace.ReadOnlySpan) {
	t.Helper()
	seen, spans := &sampler{began: make(map[string][]string)}, tracetest.NewSpanRecorder()
	o, err := retryotel.New(retryotel.Config{TracerProvider: sdktrace.NewTracerProvider(
		sdktrace.WithSampler(seen), sdktrace.WithSpanProcessor(spans))})
	require.NoError(t, err)
	client, err := retry.New(retry.Config{
		Observer: o, Transport: over, Backoff: retry.Backoff{Base: time.Millisecond, Cap: time.Millisecond},
	})
	require.NoError(t, err)
	_, err = client.Send(t.Context(), retry.Call{
		Service: "payment", Operation: "charge", Method: http.MethodPut, URL: url, Key: childkey.MustParse("secret-key"),
	})
	require.NoError(t, err)
	return seen, spans.Ended()
}

// once503 answers 503 once, and then 200.
type once503 struct{ requests int }

func (o *once503) RoundTrip(r *http.Request) (*http.Response, error) {
	status := http.StatusOK
	if o.requests++; o.requests == 1 {
		status = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, ProtoMajor: 1, Request: r}, nil
}

// The spans have the attributes of the conventions. Those that are known at their beginning are there then.
func TestSpans_http(t *testing.T) {
	t.Parallel()
	seen, spans := twice(t, "https://ann:secret@payment.test:8443/charges/7?card=secret", new(once503))
	ours := []string{"fanonce.service=payment", "fanonce.operation=charge"}
	to := []string{
		"server.address=payment.test", "server.port=8443",
		"http.request.method=PUT", "url.full=https://payment.test:8443/charges/7",
	}
	require.Equal(t, map[string][]string{
		"call payment charge 0":    ours,
		"attempt payment charge 1": slices.Concat(ours, []string{"fanonce.attempt=1"}, to),
		"attempt payment charge 2": slices.Concat(ours, []string{"fanonce.attempt=2"}, to, []string{"http.request.resend_count=1"}),
	}, seen.began)
	require.Len(t, spans, 3)
	require.Equal(t, append(to, "http.response.status_code=503", "error.type=503"), attributes(spans[0]))
	require.Equal(t, append(to, "http.request.resend_count=1", "http.response.status_code=200"), attributes(spans[1]))
	require.Equal(t, []string{"http.response.status_code=200"}, attributes(spans[2]))
	for _, span := range spans {
		require.NotContains(t, fmt.Sprint(span.Attributes(), span.Status()), "secret")
	}
}

// An rpc is a transport over gRPC, as package sdkgrpc has it.
type rpc struct{ once503 }

func (*rpc) Target(*http.Request) retry.Target {
	return retry.Target{System: "grpc", Method: "bank.v1.Payment/Charge", Address: "payment.test", Port: 443}
}

func (*rpc) RPCStatus(_ retry.Target, a retry.Answer) string {
	return map[int]string{503: "UNAVAILABLE", 200: "OK"}[a.Status]
}

// Over an RPC system there is nothing of HTTP.
func TestSpans_rpc(t *testing.T) {
	t.Parallel()
	seen, spans := twice(t, "http://grpc.invalid/bank.v1.Payment/Charge", new(rpc))
	to := []string{"server.address=payment.test", "server.port=443", "rpc.system.name=grpc", "rpc.method=bank.v1.Payment/Charge"}
	require.Equal(t, append([]string{"fanonce.service=payment", "fanonce.operation=charge", "fanonce.attempt=2"}, to...), seen.began["attempt payment charge 2"])
	require.Equal(t, append(to, "rpc.status_code=UNAVAILABLE", "error.type=UNAVAILABLE"), attributes(spans[0]))
	require.Equal(t, append(to, "rpc.status_code=OK"), attributes(spans[1]))
	require.Equal(t, []string{"rpc.status_code=OK"}, attributes(spans[2]))
}

// What the client ended has gRPC's status too. A method that HTTP does not know is one value.
func TestSpans_ends(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	o, err := retryotel.New(retryotel.Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))})
	require.NoError(t, err)
	for _, tt := range []struct {
		to   retry.Target
		err  error
		want []string
	}{
		{retry.Target{System: "grpc"}, context.DeadlineExceeded, []string{"rpc.status_code=DEADLINE_EXCEEDED", "error.type=timeout"}},
		{retry.Target{System: "grpc"}, context.Canceled, []string{"rpc.status_code=CANCELLED", "error.type=canceled"}},
		{retry.Target{System: "connectrpc"}, context.Canceled, []string{"error.type=canceled"}},
		{retry.Target{Method: "BREW"}, io.ErrUnexpectedEOF, []string{"http.request.method=_OTHER", "error.type=connection"}},
	} {
		e := retry.Event{Service: "payment", Operation: "charge", Target: tt.to, Err: tt.err}
		o.AttemptEnded(o.AttemptStarted(t.Context(), e), e)
		ended := spans.Ended()
		got := attributes(ended[len(ended)-1])
		for _, want := range tt.want {
			require.Contains(t, got, want)
		}
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

// A call that nobody samples computes no digest, and the next observer hears of it.
func TestUnsampled_allocates(t *testing.T) {
	var n events
	o := unsampled(t, &n)
	call(o)
	require.Equal(t, events{2, 1, 1}, n)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { call(o) }), 6.0)
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
