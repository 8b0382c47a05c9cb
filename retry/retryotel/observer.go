package retryotel

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanonce/fanonce/retry"
)

// scope is the name of the instrumentation.
const scope = "github.com/fanonce/fanonce/retry/retryotel"

// bounds are the buckets of the histograms, in seconds. A call may take as long as its retries.
var bounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// A Config configures an [Observer]. The zero Config is ready to use.
type Config struct {
	// TracerProvider makes the spans. nil means otel.GetTracerProvider.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. nil means otel.GetMeterProvider.
	MeterProvider metric.MeterProvider
	// Propagator writes the headers of [Observer.Prepare]. nil means the W3C's traceparent and tracestate. It sends
	// no baggage: a callee may belong to another company.
	Propagator propagation.TextMapPropagator
	// Next hears of everything too. It must not put spans of OpenTelemetry into the ctx. nil means no further observer.
	Next retry.Observer
}

// An Observer is a [retry.Observer]. One serves any number of clients. Make it with [New]. It is safe for
// concurrent use.
type Observer struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	next       retry.Observer

	calls, attempts metric.Float64Histogram
	replays         metric.Int64Counter
	callees         sync.Map // address → *callee
	ends            sync.Map // end → []metric.RecordOption
}

// New returns an observer. Its error is the MeterProvider's.
func New(cfg Config) (*Observer, error) {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.TraceContext{}
	}
	o := &Observer{tracer: cfg.TracerProvider.Tracer(scope), propagator: cfg.Propagator, next: cfg.Next}
	meter := cfg.MeterProvider.Meter(scope)
	var errs [3]error
	o.calls, errs[0] = meter.Float64Histogram("fanonce.retry.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of a call with its retries."), metric.WithExplicitBucketBoundaries(bounds...))
	o.attempts, errs[1] = meter.Float64Histogram("fanonce.retry.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("Time of an attempt."), metric.WithExplicitBucketBoundaries(bounds...))
	o.replays, errs[2] = meter.Int64Counter("fanonce.retry.replays", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that were answered with the stored answer of an earlier request."))
	return o, errors.Join(errs[:]...)
}

// An address is the service and the operation of a call.
type address struct{ service, operation string }

// A callee has the names and attributes of an address, which are made once.
type callee struct {
	call, attempt string
	ofCall        []trace.SpanStartOption
	replays       []metric.AddOption
}

func (o *Observer) callee(service, operation string) *callee {
	at := address{service, operation}
	if c, ok := o.callees.Load(at); ok {
		return c.(*callee) //nolint:errcheck // nothing else is stored
	}
	names := []attribute.KeyValue{attrService.String(service), attrOperation.String(operation)}
	c, _ := o.callees.LoadOrStore(at, &callee{
		call: "call " + service + " " + operation, attempt: "attempt " + service + " " + operation,
		ofCall:  []trace.SpanStartOption{trace.WithAttributes(names...)},
		replays: []metric.AddOption{metric.WithAttributes(names...)},
	})
	return c.(*callee) //nolint:errcheck // nothing else is stored
}

// CallStarted implements [retry.Observer].
func (o *Observer) CallStarted(ctx context.Context, e retry.Event) context.Context {
	if o.next != nil {
		ctx = o.next.CallStarted(ctx, e)
	}
	to := o.callee(e.Service, e.Operation)
	ctx, span := o.tracer.Start(ctx, to.call, to.ofCall...)
	if span.IsRecording() { // else the digest is not computed
		span.SetAttributes(attrDigest.String(e.Key.Digest()))
	}
	return ctx
}

// AttemptStarted implements [retry.Observer].
func (o *Observer) AttemptStarted(ctx context.Context, e retry.Event) context.Context {
	if o.next != nil {
		ctx = o.next.AttemptStarted(ctx, e)
	}
	ctx, span := o.tracer.Start(ctx, o.callee(e.Service, e.Operation).attempt, startOf(&e)...)
	if span.IsRecording() {
		span.SetAttributes(attrDigest.String(e.Key.Digest()))
	}
	return ctx
}

// AttemptEnded implements [retry.Observer].
func (o *Observer) AttemptEnded(ctx context.Context, e retry.Event) {
	o.attempts.Record(ctx, e.Elapsed.Seconds(), o.ending(e.Service, e.Operation, e.Outcome)...)
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		describe(span, e)
	}
	span.End()
	if o.next != nil {
		o.next.AttemptEnded(ctx, e)
	}
}

// CallEnded implements [retry.Observer].
func (o *Observer) CallEnded(ctx context.Context, e retry.Event) {
	o.calls.Record(ctx, e.Elapsed.Seconds(), o.ending(e.Service, e.Operation, e.Outcome)...)
	if e.Replayed {
		o.replays.Add(ctx, 1, o.callee(e.Service, e.Operation).replays...)
	}
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		describe(span, e)
		span.SetAttributes(attrAttempts.Int(e.Attempts), attrReplayed.Bool(e.Replayed))
	}
	span.End()
	if o.next != nil {
		o.next.CallEnded(ctx, e)
	}
}

// Prepare is for retry.Config.Prepare: it sends the trace context of an attempt in its headers. It returns no error.
func (o *Observer) Prepare(_ int, r *http.Request) error {
	o.propagator.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	return nil
}

// describe writes how a call or an attempt ended. The text of an error may hold data: only its kind is written.
func describe(span trace.Span, e retry.Event) {
	span.SetAttributes(attrOutcome.String(e.Outcome.String()))
	span.SetAttributes(statusOf(&e)...)
	if e.Err != nil {
		kind := errorType(&e)
		span.SetAttributes(attrError.String(kind))
		span.SetStatus(codes.Error, kind)
	}
}

// An end is the attributes of a histogram.
type end struct {
	address
	outcome retry.Outcome
}

func (o *Observer) ending(service, operation string, outcome retry.Outcome) []metric.RecordOption {
	of := end{address{service, operation}, outcome}
	if options, ok := o.ends.Load(of); ok {
		return options.([]metric.RecordOption) //nolint:errcheck // nothing else is stored
	}
	options, _ := o.ends.LoadOrStore(of, []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(
		attrService.String(service), attrOperation.String(operation), attrOutcome.String(outcome.String())))})
	return options.([]metric.RecordOption) //nolint:errcheck // nothing else is stored
}
