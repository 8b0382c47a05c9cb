package main

import (
	"context"

	"go.opentelemetry.io/otel/propagation"

	"github.com/fanonce/fanonce/server/guardotel"
)

// traceContext is the W3C's: the headers traceparent and tracestate. It carries no baggage.
var traceContext = propagation.TraceContext{}

// traceOf returns the trace of ctx as the headers of a message have it; empty if there is none.
func traceOf(ctx context.Context) map[string]string {
	headers := make(propagation.MapCarrier)
	traceContext.Inject(ctx, headers)
	return headers
}

// inTrace returns ctx in the trace of a message, whose headers header returns, "" for one that is missing. What the inbox
// does in that ctx is below the run that wrote the message.
func inTrace(ctx context.Context, header func(name string) string) context.Context {
	headers := make(propagation.MapCarrier)
	for _, name := range traceContext.Fields() {
		headers[name] = header(name)
	}
	return traceContext.Extract(ctx, headers)
}

// newTelemetry returns the observer of a guard. Without a TracerProvider the spans go where otel.SetTracerProvider says,
// and by default nowhere.
func (o *options) newTelemetry(name string) (*guardotel.Observer, error) {
	return guardotel.New(guardotel.Config{Name: name, TracerProvider: o.traces})
}
