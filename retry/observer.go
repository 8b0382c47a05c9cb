package retry

import (
	"context"
	"log/slog"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
)

// An Observer hears how calls go. Its methods are called in the goroutine of
// the call, concurrently for concurrent calls, and must return quickly. For a request
// that passes through [Client.RoundTripper] they are called when the header of its answer
// came.
type Observer interface {
	// AttemptEnded is called after each attempt, before the wait that follows.
	AttemptEnded(ctx context.Context, e AttemptEvent)
	// CallEnded is called once per call, also for one that was never sent.
	CallEnded(ctx context.Context, e CallEvent)
}

// A Tracer is an [Observer] that also hears of beginnings, and may put something
// into the ctx of what begins: a span. The ctx that it returns, which must come from
// the one that it was given, is that of the call or attempt, and of the events that
// end it; Config.Prepare finds an attempt's in the request, to send the span's name
// with it. Nothing ends a call that panics.
type Tracer interface {
	Observer
	// CallStarted is called once per call, before anything is checked or sent.
	CallStarted(ctx context.Context, e CallStart) context.Context
	// AttemptStarted is called before each attempt, in the ctx of its call.
	AttemptStarted(ctx context.Context, e AttemptStart) context.Context
}

// A CallStart is the beginning of a call.
type CallStart struct {
	Service, Operation string
	Key                childkey.Key // show its Digest
}

// An AttemptStart is the beginning of one attempt.
type AttemptStart struct {
	Service, Operation string
	Key                childkey.Key // show its Digest

	Attempt
}

// An AttemptEvent is the end of one attempt.
type AttemptEvent struct {
	Service, Operation string
	Key                childkey.Key // show its Digest

	Attempt    int       // counts from 1
	Deliveries int       // how often it may have reached the callee; above 1 net/http repeated it by itself
	Outcome    Outcome   // of this attempt alone
	Action     Action    // what the table says; the call may end all the same
	Status     int       // 0: no complete answer
	Code       wire.Code // "": none
	Elapsed    time.Duration
	Wait       time.Duration // before the next attempt; 0: there is none
	Err        error         // nil after a 2xx answer
}

// A CallEvent is the end of a call.
type CallEvent struct {
	Service, Operation string
	Key                childkey.Key // show its Digest

	Attempts int
	Outcome  Outcome
	Status   int
	Code     wire.Code
	Replayed bool
	Elapsed  time.Duration
	Err      error // nil, or the [*Error] that the call returned
}

// observers tells each of several.
type observers []Observer

func (o observers) AttemptEnded(ctx context.Context, e AttemptEvent) {
	for _, each := range o {
		each.AttemptEnded(ctx, e)
	}
}

func (o observers) CallEnded(ctx context.Context, e CallEvent) {
	for _, each := range o {
		each.CallEnded(ctx, e)
	}
}

// newObservers returns who listens by cfg; nil if nobody does. The tracer is nil
// unless cfg.Observer is one.
func newObservers(cfg Config) (Observer, Tracer) {
	var o observers
	tracer, _ := cfg.Observer.(Tracer)
	if cfg.Observer != nil {
		o = append(o, cfg.Observer)
	}
	if cfg.Logger != nil {
		o = append(o, logObserver{cfg.Logger})
	}
	if len(o) == 0 {
		return nil, nil
	}
	return o, tracer
}

// A logObserver writes events to a log.
type logObserver struct{ *slog.Logger }

func (l logObserver) AttemptEnded(ctx context.Context, e AttemptEvent) {
	if e.Action == Stop {
		return // CallEnded has it
	}
	l.LogAttrs(ctx, slog.LevelDebug, "retry: attempt failed",
		slog.String("service", e.Service), slog.String("operation", e.Operation),
		slog.String("key_digest", e.Key.Digest()), slog.Int("attempt", e.Attempt),
		slog.String("outcome", e.Outcome.String()), slog.String("action", e.Action.String()),
		slog.Int("status", e.Status), slog.String("code", string(e.Code)),
		slog.Duration("wait", e.Wait), slog.Any("err", e.Err))
}

func (l logObserver) CallEnded(ctx context.Context, e CallEvent) {
	var level slog.Level
	switch {
	case e.Err == nil:
		return
	case e.Code == wire.KeyReused:
		level = slog.LevelError // a mistake in a program: no retry will mend it
	case e.Outcome == Unknown:
		level = slog.LevelWarn
	default:
		level = slog.LevelDebug
	}
	l.LogAttrs(ctx, level, "retry: call ended",
		slog.String("service", e.Service), slog.String("operation", e.Operation),
		slog.String("key_digest", e.Key.Digest()), slog.Int("attempts", e.Attempts),
		slog.String("outcome", e.Outcome.String()), slog.Int("status", e.Status),
		slog.String("code", string(e.Code)), slog.Duration("elapsed", e.Elapsed), slog.Any("err", e.Err))
}
