package sagaotel

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/gauges"
	"github.com/fanonce/fanonce/saga/journal"
)

// scope is the name of the instrumentation.
const scope = "github.com/fanonce/fanonce/saga/sagaotel"

// The attributes of spans and metrics. Those without "fanonce" are of the semantic conventions.
const (
	attrJournal = attribute.Key("fanonce.saga.journal")
	attrName    = attribute.Key("fanonce.saga.name")
	attrID      = attribute.Key("fanonce.saga.id")
	attrStatus  = attribute.Key("fanonce.saga.status")
	attrStep    = attribute.Key("fanonce.saga.step")
	attrUndo    = attribute.Key("fanonce.saga.undo")
	attrAttempt = attribute.Key("fanonce.attempt")
	attrFence   = attribute.Key("fanonce.fence")
	attrOutcome = attribute.Key("fanonce.outcome")
	attrEvent   = attribute.Key("fanonce.event")
	attrHTTP    = attribute.Key("http.response.status_code")
	attrError   = attribute.Key("error.type")
)

// A Config configures an [Observer]. The zero Config is ready to use.
type Config struct {
	// Name is the attribute fanonce.saga.journal of the journal's numbers ([Observer.Watch]). It tells the journals of one
	// process apart, so it must be unique there: of two with one name, each hides numbers of the other. It is printable
	// UTF-8 of at most 128 bytes. Empty means a number: "1" for the first observer of the process without a name, "2" for
	// the next.
	Name string
	// TracerProvider makes the spans. nil means otel.GetTracerProvider.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the metrics. nil means otel.GetMeterProvider.
	MeterProvider metric.MeterProvider
	// Next gets every event too, such as [saga.Metrics]. It must not be a [saga.Tracer]. nil means no further
	// observer.
	Next saga.Observer
}

// A ConfigError reports a wrong field of a [Config], or a wrong argument.
type ConfigError struct{ Field, Problem string }

// Error implements error.
func (e *ConfigError) Error() string { return "sagaotel: " + e.Field + " " + e.Problem }

// An Observer is a [saga.Tracer]. Make one for each engine with [New]. It is safe for concurrent use.
type Observer struct {
	name   string
	tracer trace.Tracer
	meter  metric.Meter
	next   saga.Observer
	meters *meters
	starts sync.Map // beginning → *spanStart

	mu          sync.Mutex
	unwatchFunc func() error // nil: nothing is watched
}

var names gauges.Names

// New returns an observer. A wrong field is a [*ConfigError]. Another error is the MeterProvider's.
func New(cfg Config) (*Observer, error) {
	if _, ok := cfg.Next.(saga.Tracer); ok {
		return nil, &ConfigError{"Next", "is a saga.Tracer: it would not hear of beginnings"}
	}
	name, err := names.Choose(cfg.Name)
	if err != nil {
		return nil, &ConfigError{"Name", err.Error()}
	}
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = otel.GetMeterProvider()
	}
	o := &Observer{name: name, tracer: cfg.TracerProvider.Tracer(scope), meter: cfg.MeterProvider.Meter(scope), next: cfg.Next}
	o.meters, err = newMeters(o.meter)
	return o, err
}

// Close ends the metrics of [Observer.Watch], and a read of the journal that is running. Call it before the journal
// is closed, once or more often. Other metrics and spans go on. It returns the error of the MeterProvider.
func (o *Observer) Close() error {
	o.mu.Lock()
	unwatch := o.unwatchFunc
	o.unwatchFunc = nil
	o.mu.Unlock()
	if unwatch == nil {
		return nil
	}
	return unwatch()
}

// Trace implements [saga.Tracer]: it is the traceparent of the span in ctx, as the W3C defines it. It also
// names a span that is not sampled, so that the saga is not sampled either.
func (*Observer) Trace(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// A beginning is the start of the span of a saga or a step.
type beginning struct {
	name, step string
	undo       bool
}

// A spanStart has what a span begins with. A sampler sees no later attributes.
type spanStart struct {
	span    string
	options []trace.SpanStartOption
}

// beginningOf returns the start of b's spans, which is made once.
func (o *Observer) beginningOf(b beginning) *spanStart {
	if s, ok := o.starts.Load(b); ok {
		return s.(*spanStart) //nolint:errcheck // nothing else is stored
	}
	made := &spanStart{span: "saga " + b.name, options: []trace.SpanStartOption{trace.WithAttributes(attrName.String(b.name))}}
	if b.step != "" {
		made.span = "step " + b.name + " " + b.step
		if b.undo {
			made.span = "undo " + b.name + " " + b.step
		}
		made.options = []trace.SpanStartOption{trace.WithAttributes(attrName.String(b.name), attrStep.String(b.step), attrUndo.Bool(b.undo))}
	}
	s, _ := o.starts.LoadOrStore(b, made)
	return s.(*spanStart) //nolint:errcheck // nothing else is stored
}

// RunStarted implements [saga.Tracer].
func (o *Observer) RunStarted(ctx context.Context, e journal.RunEvent) context.Context {
	if e.Trace != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": e.Trace})
	}
	at := o.beginningOf(beginning{name: e.Name})
	ctx, span := o.tracer.Start(ctx, at.span, at.options...)
	if span.IsRecording() { // else nothing is computed
		span.SetAttributes(attrID.String(e.ID.String()), attrFence.Int64(e.Fence))
	}
	return ctx
}

// RunEnded implements [saga.Tracer].
func (*Observer) RunEnded(ctx context.Context) { trace.SpanFromContext(ctx).End() }

// StepStarted implements [saga.Tracer].
func (o *Observer) StepStarted(ctx context.Context, e saga.Event) context.Context {
	at := o.beginningOf(beginning{e.Name, kindOfStep(&e), e.Undo})
	ctx, span := o.tracer.Start(ctx, at.span, at.options...)
	if span.IsRecording() {
		span.SetAttributes(attrID.String(e.ID.String()), attrAttempt.Int(e.Attempt))
		if e.Each != "" {
			span.SetAttributes(attrStep.String(e.Step))
		}
	}
	return ctx
}

// StepEnded implements [saga.Tracer].
func (*Observer) StepEnded(ctx context.Context, e saga.Event) {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		span.SetAttributes(attrOutcome.String(e.Outcome.String()))
		if e.Status != 0 {
			span.SetAttributes(attrHTTP.Int(e.Status))
		}
		if e.Err != nil { // its text may hold data
			kind := errorType(e)
			span.SetAttributes(attrError.String(kind))
			span.SetStatus(codes.Error, kind)
		}
	}
	span.End()
}

// errorType is the kind of an attempt's error, with few values: the problem code, else the outcome.
func errorType(e saga.Event) string {
	switch {
	case e.Code != "":
		return string(e.Code)
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(e.Err, retry.ErrKeyExpired):
		return "key-expired"
	default:
		return e.Outcome.String()
	}
}

// Observe implements [saga.Observer].
func (o *Observer) Observe(ctx context.Context, e saga.Event) {
	o.meters.count(ctx, e)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		annotate(span, e)
	}
	if o.next != nil {
		o.next.Observe(ctx, e)
	}
}

// annotate notes an event in the span of its saga.
func annotate(span trace.Span, e saga.Event) {
	switch e.Kind {
	case saga.EventAttempt: // it has a span of its own
	case saga.EventMoved:
		span.SetAttributes(attrStatus.String(e.To.String()))
		if e.From != 0 && e.From != e.To {
			span.AddEvent("fanonce.saga." + e.To.String())
		}
		if e.To == journal.Stuck {
			span.SetStatus(codes.Error, e.To.String())
		}
	default:
		span.AddEvent("fanonce.saga." + eventName(e.Kind))
	}
}
