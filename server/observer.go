package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/store"
)

// An Observer gets the events of a guard; [Metrics] is one. Observe is called
// synchronously and from many goroutines: it must be fast, safe for concurrent
// use, and must not panic.
//
// ctx is the ctx of the call or the run that the event is about, with its values. An event about
// several runs, or about no run, has a ctx without values of a call. ctx may have ended.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// An EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events. Each call that reaches the store ends with one of the first five.
const (
	EventMiss       EventKind = iota // the call ran
	EventHit                         // the call was answered with the stored answer
	EventMismatch                    // refused: key-reused
	EventInProgress                  // refused: in-progress
	EventRefused                     // refused otherwise; Code says why

	EventWaitTimeout // a call waited for another caller's run, and was refused with in-progress
	EventTakeOver    // a dead owner's key was taken over
	EventLeaseLost   // a run lost its lease, as far as it knows
	EventUnknown     // a key became outcome-unknown
	EventTombstone   // a key completed without an answer that can be replayed
	EventQuarantined // a key was quarantined
	EventStoreError  // a call to the store failed; Err says how
	EventConflict    // a transaction was rolled back by a conflict and is repeated
	EventSettleRetry // an outcome could not be recorded and is sent again
	EventPanic       // a handler panicked or ended its goroutine
	EventCacheHit    // a call was answered from the cache, without the store
	EventResolved    // an unknown or quarantined key was resolved, by a person or a reconciler
	EventForgotten   // a record was deleted by a person
	EventReconcile   // a reconciler was asked; Err if it failed
	EventSealError   // an answer or memo could not be sealed, or opened; Err says how
	EventRedactError // Route.Redact failed, and the answer is not stored; Err says how
	EventSweepError  // Guard.RunSweeper failed, and tries again; Err says how

	// EventFailed: a run failed. Its handler answered with a 5xx or an error, or panicked; or its answer
	// could not be recorded, and Err says why. A run that only asks for a retry, as with a 429, did not fail.
	EventFailed

	EventClaimed // a key was claimed; Duration is the time of the store
	EventWaited  // a call waited for another's run; Duration is how long it took in all
	EventSettled // a run was completed; Duration is how long the key was pending, since its first claim
	EventSwept   // Guard.RunSweeper deleted Count records; Duration is the time of the store

	eventKinds
)

var eventNames = [eventKinds]string{
	EventMiss: "miss", EventHit: "hit", EventMismatch: "mismatch", EventInProgress: "in_progress", EventRefused: "refused",
	EventWaitTimeout: "wait_timeout", EventTakeOver: "take_over", EventLeaseLost: "lease_lost", EventUnknown: "unknown",
	EventTombstone: "tombstone", EventQuarantined: "quarantined", EventStoreError: "store_error", EventConflict: "conflict",
	EventPanic: "panic", EventCacheHit: "cache_hit",
	EventSettleRetry: "settle_retry", EventResolved: "resolved", EventForgotten: "forgotten", EventReconcile: "reconcile", EventSealError: "seal_error",
	EventRedactError: "redact_error", EventFailed: "failed", EventClaimed: "claimed", EventWaited: "waited", EventSettled: "settled",
	EventSweepError: "sweep_error", EventSwept: "swept",
}

// String returns the name of the kind in snake case, as metrics show it.
func (k EventKind) String() string {
	if k < eventKinds {
		return eventNames[k]
	}
	return "event"
}

// An Event is one event of a guard. It contains no key, scope or body.
type Event struct {
	Kind     EventKind
	Route    string        // [Route.Name]; "" if the event does not belong to one route
	ID       store.ID      // for traces and logs; has too many values for a metric's label
	Parent   store.ID      // the caller's record, as the call of an [EventClaimed] named it; zero: none
	Code     wire.Code     // of a refusal
	Duration time.Duration // where the kind says so
	Count    int           // where the kind says so
	Err      error         // where the kind says so
	Trace    string        // of an [EventHit]: [Tracer].Trace of the run whose answer is repeated; "" if it had none
}

// kinds are the engine's kinds of events, as an [Observer] sees them.
var kinds = [...]EventKind{
	engine.EventMiss: EventMiss, engine.EventHit: EventHit, engine.EventMismatch: EventMismatch, engine.EventInProgress: EventInProgress,
	engine.EventRefused: EventRefused, engine.EventWaitTimeout: EventWaitTimeout, engine.EventTakeOver: EventTakeOver,
	engine.EventLeaseLost: EventLeaseLost, engine.EventUnknown: EventUnknown, engine.EventTombstone: EventTombstone,
	engine.EventQuarantined: EventQuarantined, engine.EventStoreError: EventStoreError, engine.EventConflict: EventConflict,
	engine.EventSettleRetry: EventSettleRetry, engine.EventPanic: EventPanic, engine.EventCacheHit: EventCacheHit,
	engine.EventResolved: EventResolved, engine.EventForgotten: EventForgotten, engine.EventReconcile: EventReconcile,
	engine.EventSealError: EventSealError, engine.EventSweepError: EventSweepError, engine.EventClaimed: EventClaimed,
	engine.EventWaited: EventWaited, engine.EventSettled: EventSettled, engine.EventSwept: EventSwept,
	engine.EventFailed: EventFailed,
}

// observeEngine observes an event of the engine.
func (g *Guard) observeEngine(ctx context.Context, e engine.Event) {
	if e.Kind == engine.EventSweepError {
		g.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "sweep failed", slog.Any("error", e.Err))
	}
	g.observe(ctx, Event{Kind: kinds[e.Kind], Route: e.Route, ID: e.ID, Parent: e.Parent, Code: e.Code, Duration: e.Duration, Count: e.Count, Err: e.Err, Trace: e.Trace})
}

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
	// ctx that it returns.
	RunStarted(ctx context.Context, e CallEvent) context.Context
	// RunEnded is called once for each RunStarted, with its ctx, also if the handler panics.
	RunEnded(ctx context.Context)
	// Trace returns the trace context of a run, of at most 255 visible ASCII characters. It is stored with the
	// answer, and each replay has it in [Event].Trace. "" stores nothing.
	Trace(ctx context.Context) string
}

// A CallEvent is the beginning of a call, or of its run.
type CallEvent struct {
	Route  string       // [Route.Name]
	Effect Effect       // of the route
	Key    childkey.Key // as it arrived; show its Digest
	ID     store.ID     // of the record
	Parent store.ID     // the caller's record, as the call names it; zero: none
	Fence  int64        // of the run; 0 at the beginning of a call. More than 1: an earlier run died, or asked for another run
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
	e := callEvent(c)
	e.Fence = fence
	return t.Tracer.RunStarted(ctx, e)
}

func callEvent(c *engine.Call) CallEvent {
	return CallEvent{Route: c.Route.Name, Effect: c.Route.Effect, Key: c.Key, ID: c.ID, Parent: c.Inbound.Parent}
}
