package server

import (
	"context"
	"log/slog"

	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/store"
)

// An Observer gets the events of a guard; [Metrics] is one. Observe is called
// synchronously and from many goroutines: it must be fast, and safe for concurrent
// use. The guard holds no lock meanwhile, so that Observe may call the guard. A panic is logged, and
// ends nothing else.
//
// ctx is the ctx of the call or the run that the event is about, with its values. An event about
// several runs, or about no run, has a ctx without values of a call. ctx may have ended.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// An EventKind is the kind of an [Event]. Package store says what each kind means.
type EventKind = store.EventKind

// The kinds of events, as [store.EventKind] has them.
const (
	EventMiss        = store.EventMiss
	EventHit         = store.EventHit
	EventMismatch    = store.EventMismatch
	EventInProgress  = store.EventInProgress
	EventRefused     = store.EventRefused
	EventWaitTimeout = store.EventWaitTimeout
	EventTakeOver    = store.EventTakeOver
	EventLeaseLost   = store.EventLeaseLost
	EventUnknown     = store.EventUnknown
	EventTombstone   = store.EventTombstone
	EventQuarantined = store.EventQuarantined
	EventStoreError  = store.EventStoreError
	EventConflict    = store.EventConflict
	EventSettleRetry = store.EventSettleRetry
	EventPanic       = store.EventPanic
	EventCacheHit    = store.EventCacheHit
	EventResolved    = store.EventResolved
	EventForgotten   = store.EventForgotten
	EventReconcile   = store.EventReconcile
	EventSealError   = store.EventSealError
	EventRedactError = store.EventRedactError
	EventSweepError  = store.EventSweepError
	EventFailed      = store.EventFailed
	EventClaimed     = store.EventClaimed
	EventWaited      = store.EventWaited
	EventSettled     = store.EventSettled
	EventSwept       = store.EventSwept

	EventMessageRan       = store.EventMessageRan
	EventMessageDuplicate = store.EventMessageDuplicate
	EventMessageFailed    = store.EventMessageFailed
	EventMessageDead      = store.EventMessageDead
	EventMessageBusy      = store.EventMessageBusy
)

// An Event is one event of a guard. It contains no key, scope or body.
type Event = store.Event

// A Tracer is an [Observer] that also hears when calls and runs begin and end. It may put a span into
// their ctx. The ctx that it returns must be derived from the ctx that it was given. As [Config].Observer it is
// called as an Observer is. A method that panics counts as not called.
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
type CallEvent = store.CallEvent

// Observe tells [Config].Observer of an event that the guard itself does not know. It is for adapters that are made from a
// guard: package inbox tells of its deliveries with it. Without an Observer, and with a nil guard, it does nothing. It is
// safe for concurrent use.
func (g *Guard) Observe(ctx context.Context, e Event) {
	if g != nil {
		g.observe(ctx, e)
	}
}

// recoverObserver logs a panic of the Observer. An Observer is called in the middle of a run, in the goroutine of the
// heartbeat and while a panic of the handler goes on: its own panic must change none of them. It is deferred.
func (g *Guard) recoverObserver(ctx context.Context, method string) {
	if v := recover(); v != nil {
		g.log.write(ctx, logLine{Line: engine.Line{
			Level: slog.LevelError, Message: "Observer panicked: its event is lost", Err: toPanicError("Observer."+method, v),
		}})
	}
}

// A safeTracer is a Tracer whose panics change nothing.
type safeTracer struct {
	guard  *Guard
	tracer Tracer
}

func (s *safeTracer) CallStarted(ctx context.Context, e CallEvent) (in context.Context) {
	in = ctx
	defer s.guard.recoverObserver(ctx, "CallStarted")
	return s.tracer.CallStarted(ctx, e)
}

func (s *safeTracer) CallEnded(ctx context.Context) {
	defer s.guard.recoverObserver(ctx, "CallEnded")
	s.tracer.CallEnded(ctx)
}

func (s *safeTracer) RunStarted(ctx context.Context, e CallEvent) (in context.Context) {
	in = ctx
	defer s.guard.recoverObserver(ctx, "RunStarted")
	return s.tracer.RunStarted(ctx, e)
}

func (s *safeTracer) RunEnded(ctx context.Context) {
	defer s.guard.recoverObserver(ctx, "RunEnded")
	s.tracer.RunEnded(ctx)
}

func (s *safeTracer) Trace(ctx context.Context) string {
	defer s.guard.recoverObserver(ctx, "Trace")
	return s.tracer.Trace(ctx)
}
