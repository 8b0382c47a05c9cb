package server

import (
	"context"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/store"
)

// A Tracer is an [Observer] that also hears when calls and runs begin and end. It may put a span into
// their ctx. The ctx that it returns must be derived from the ctx that it was given. As [Config].Observer it is
// called as an Observer is: it must be fast, and must not panic.
type Tracer interface {
	Observer
	// CallStarted is called for each call with a valid key, before the store is asked. The events of
	// the call and its run have the ctx that it returns.
	CallStarted(ctx context.Context, e CallEvent) context.Context
	// CallEnded is called once for each CallStarted, with its ctx, also if the handler panics.
	CallEnded(ctx context.Context)
	// RunStarted is called when the call has the key, before its handler. Handler and settlement run in the
	// ctx that it returns. With [Route].OneCommit the handler comes before the claim: a run whose key has an
	// answer already leaves nothing.
	RunStarted(ctx context.Context, e RunEvent) context.Context
	// RunEnded is called once for each RunStarted, with its ctx, also if the handler panics.
	RunEnded(ctx context.Context)
	// Trace returns the trace context of a run, of at most 255 visible ASCII characters. It is stored with the
	// answer, and each replay has it in [Event].Trace. "" stores nothing.
	Trace(ctx context.Context) string
}

// A CallEvent is the beginning of a call.
type CallEvent struct {
	Route  string       // [Route.Name]
	Effect Effect       // of the route
	Key    childkey.Key // as it arrived; show its Digest
	ID     store.ID     // of the record
	Parent store.ID     // the caller's record, as the call names it; zero: none
}

// A RunEvent is the beginning of a run.
type RunEvent struct {
	CallEvent

	Fence int64 // more than 1: an earlier run died, or asked for another run
}

// An engineTracer is a Tracer as the engine calls it.
type engineTracer struct{ Tracer }

// tracer returns the observer of the guard as the engine's tracer; nil if it is none.
func (g *Guard) tracer() engine.Tracer {
	if t, ok := g.cfg.Observer.(Tracer); ok {
		return engineTracer{t}
	}
	return nil
}

// CallStarted implements [engine.Tracer].
func (t engineTracer) CallStarted(ctx context.Context, c *engine.Call) context.Context {
	return t.Tracer.CallStarted(ctx, callEvent(c))
}

// RunStarted implements [engine.Tracer].
func (t engineTracer) RunStarted(ctx context.Context, c *engine.Call, fence int64) context.Context {
	return t.Tracer.RunStarted(ctx, RunEvent{CallEvent: callEvent(c), Fence: fence})
}

func callEvent(c *engine.Call) CallEvent {
	return CallEvent{Route: c.Route.Name, Effect: c.Route.Effect, Key: c.Key, ID: c.ID, Parent: c.Inbound.Parent}
}
