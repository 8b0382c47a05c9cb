package engine

import (
	"context"
	"errors"
	"log/slog"

	"github.com/fanonce/fanonce/childkey/wire"
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
