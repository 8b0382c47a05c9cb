package guardotel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/gauges"
	"github.com/fanonce/fanonce/server/store"
)

// An Observer is a [server.Tracer]. Make one for each guard with [New]. It is safe for concurrent use.
type Observer struct {
	name      string
	tracer    trace.Tracer
	next      server.Observer
	meters    *meters
	routes    sync.Map // string → *route
	closeFunc func() error
}

// New returns an observer. A wrong field is a [*server.ConfigError], and other errors come from the MeterProvider.
func New(cfg Config) (*Observer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	meter := cfg.MeterProvider.Meter(scope)
	o := &Observer{name: cfg.Name, tracer: cfg.TracerProvider.Tracer(scope), next: cfg.Next, closeFunc: func() error { return nil }}
	if o.meters, err = newMeters(meter); err != nil {
		return nil, err
	}
	if cfg.Store != nil {
		numbers := gauges.Watch(cfg.Store, cfg.StatsEvery)
		registration, err := watch(meter, numbers, cfg.Name)
		if err != nil {
			return nil, err
		}
		o.closeFunc = func() error {
			defer numbers.Stop()
			return registration.Unregister()
		}
	}
	return o, nil
}

// Close ends the metrics of the store, and the questions to it that are under way. Call it before the store is closed, once
// or more often. The guard's own metrics and spans go on. Its error is the MeterProvider's.
func (o *Observer) Close() error { return o.closeFunc() }

// CallStarted implements [server.Tracer].
func (o *Observer) CallStarted(ctx context.Context, e server.CallEvent) context.Context {
	r := o.route(e.Route)
	ctx, span := o.tracer.Start(ctx, r.call, r.startOf(&e)...)
	if span.IsRecording() { // else nothing is computed
		span.SetAttributes(attributesOf(&e)...)
	}
	return ctx
}

// attributesOf returns those that no sampler needs, and that cost something.
func attributesOf(e *server.CallEvent) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attrDigest.String(e.Key.Digest()), attrRecord.String(e.ID.String()),
	}
	if e.Parent != (store.ID{}) {
		attrs = append(attrs, attrParent.String(e.Parent.String()))
	}
	return attrs
}

// CallEnded implements [server.Tracer].
func (*Observer) CallEnded(ctx context.Context) { trace.SpanFromContext(ctx).End() }

// RunStarted implements [server.Tracer].
func (o *Observer) RunStarted(ctx context.Context, e server.CallEvent) context.Context {
	r := o.route(e.Route)
	ctx, span := o.tracer.Start(ctx, r.run, r.startOf(&e)...)
	if span.IsRecording() {
		span.SetAttributes(append(attributesOf(&e), attrFence.Int64(e.Fence))...)
	}
	return ctx
}

// RunEnded implements [server.Tracer].
func (*Observer) RunEnded(ctx context.Context) { trace.SpanFromContext(ctx).End() }

// Trace implements [server.Tracer]: it is the traceparent of the run's span, as the W3C defines it, if the span
// is sampled. A link to any other span leads nowhere.
func (*Observer) Trace(ctx context.Context) string {
	in := trace.SpanContextFromContext(ctx)
	if !in.IsValid() || !in.IsSampled() {
		return ""
	}
	return "00-" + in.TraceID().String() + "-" + in.SpanID().String() + "-01"
}

// Observe implements [server.Observer].
func (o *Observer) Observe(ctx context.Context, e server.Event) {
	o.meters.count(ctx, o.route(e.Route), e)
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		annotate(span, e)
	}
	if o.next != nil {
		o.next.Observe(ctx, e)
	}
}

// annotate notes an event in the span of its call or run.
func annotate(span trace.Span, e server.Event) {
	switch e.Kind {
	case server.EventMiss:
		span.SetAttributes(attrOutcome.String(e.Kind.String()))
	case server.EventHit:
		span.SetAttributes(attrOutcome.String(e.Kind.String()))
		if first := spanOf(e.Trace); first.IsValid() {
			span.AddLink(trace.Link{SpanContext: first, Attributes: []attribute.KeyValue{attrLink.String("first run")}})
		}
	case server.EventMismatch, server.EventInProgress, server.EventRefused:
		span.SetAttributes(attrOutcome.String(e.Kind.String()), attrError.String(string(e.Code)))
		span.SetStatus(codes.Error, string(e.Code))
	case server.EventFailed, server.EventPanic:
		span.SetAttributes(attrError.String(e.Kind.String()))
		span.SetStatus(codes.Error, e.Kind.String())
	case server.EventClaimed, server.EventSettled: // of nearly every run
	default:
		span.AddEvent("fanonce." + e.Kind.String())
	}
}

// spanOf returns the span that a traceparent names; an invalid one for any other text.
func spanOf(text string) trace.SpanContext {
	if text == "" {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{"traceparent": text}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}
