package engine

import (
	"context"
	"errors"
	"log/slog"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// A Line is for the log: a failure of the service's own code. It holds no key, scope or
// body.
type Line struct {
	Level   slog.Level
	Message string
	Code    wire.Code
	Route   string
	ID      store.ID
	Err     error
	Attrs   []slog.Attr
}

func (e *Engine) observe(ctx context.Context, event store.Event) { e.cfg.Observe(ctx, event) }

// observeStoreError observes an error of the store, unless a healthy store returns it too.
func (e *Engine) observeStoreError(ctx context.Context, c *Call, err error) {
	var failed *hookError
	if errors.Is(err, store.ErrExpired) || errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrRecordUnreadable) ||
		errors.Is(err, store.ErrConflict) || errors.As(err, &failed) {
		return
	}
	e.observe(ctx, store.Event{Kind: store.EventStoreError, Route: c.Route.Name, ID: c.ID, Err: err})
}

// observePanic observes that a function of the service panicked or ended its goroutine, and that its run failed.
func (r *run) observePanic() {
	r.engine.observe(r.ctx, store.Event{Kind: store.EventPanic, Route: r.call.Route.Name, ID: r.owner.ID})
	r.engine.observe(r.ctx, store.Event{Kind: store.EventFailed, Route: r.call.Route.Name, ID: r.owner.ID})
}

// observeFailure observes a run that failed without a panic.
func (r *run) observeFailure(out Outcome) {
	failed := out.Failed
	switch out.Code {
	case wire.LeaseLost, wire.NotStorable, wire.StoreUnavailable, wire.TransactionFailed:
		failed = true
	default:
	}
	if failed {
		r.engine.observe(r.ctx, store.Event{Kind: store.EventFailed, Route: r.call.Route.Name, ID: r.owner.ID, Err: out.Err})
	}
}

// observeOutcome observes how a call ended.
func (e *Engine) observeOutcome(ctx context.Context, c *Call, out Outcome) {
	event := store.Event{Route: c.Route.Name, ID: c.ID, Code: out.Code, Err: out.Err, Trace: out.Trace}
	switch {
	case out.Replay != nil:
		event.Kind = store.EventHit
	case out.Code == wire.KeyReused:
		event.Kind = store.EventMismatch
	case out.Code == wire.InProgress:
		event.Kind = store.EventInProgress
		if out.Waited {
			e.observe(ctx, store.Event{Kind: store.EventWaitTimeout, Route: c.Route.Name, ID: c.ID})
		}
	case out.Code != "":
		event.Kind = store.EventRefused
	default:
		event.Kind = store.EventMiss
	}
	e.observe(ctx, event)
}

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
