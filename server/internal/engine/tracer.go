package engine

import (
	"context"

	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// A Tracer hears when calls and runs begin and end. Package server says more.
type Tracer interface {
	CallStarted(ctx context.Context, e store.CallEvent) context.Context
	CallEnded(ctx context.Context)
	RunStarted(ctx context.Context, e store.CallEvent) context.Context
	RunEnded(ctx context.Context)
	Trace(ctx context.Context) string
}

func (c *Call) event(fence int64) store.CallEvent {
	return store.CallEvent{Route: c.Route.Name, Effect: c.Route.Effect, Key: c.Key, ID: c.ID, Parent: c.Inbound.Parent, Fence: fence}
}

// startTrace returns ctx with what the tracer put into it for r, and the function that ends it.
func (r *run) startTrace(ctx context.Context) (_ context.Context, end func()) {
	t := r.engine.cfg.Tracer
	if t == nil {
		return ctx, func() {}
	}
	ctx = t.RunStarted(ctx, r.call.event(r.owner.Fence))
	return ctx, func() { t.RunEnded(ctx) }
}

// withTrace adds the trace context of the run to its answer, so that a replay can name the run.
func (r *run) withTrace(a store.Answer) store.Answer {
	if t := r.engine.cfg.Tracer; t != nil {
		a.Envelope = record.WithTrace(a.Envelope, t.Trace(r.ctx))
	}
	return a
}

// traceOf is the trace context of the run whose answer, opened, is repeated.
func (e *Engine) traceOf(a *store.Answer) string {
	if e.cfg.Tracer == nil {
		return ""
	}
	return record.TraceOf(a.Envelope)
}
