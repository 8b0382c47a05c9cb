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
	// CallEnded is called once for each call, even if the call was never sent.
	CallEnded(ctx context.Context, e CallEvent)
}

// A Tracer is an [Observer] that also hears when calls and attempts begin. It may put a
// span into their ctx. The ctx that it returns must be derived from the ctx that it was
// given. The call or attempt runs in that ctx, and its end is observed in it.
// Config.Prepare finds the ctx of an attempt in the request. A call that panics has no end.
type Tracer interface {
	Observer
	// CallStarted is called once per call, before anything is checked or sent. e has the
	// names and the key of the call; the fields of its end are zero.
	CallStarted(ctx context.Context, e CallEvent) context.Context
	// AttemptStarted is called before each attempt, in the ctx of its call. e has the names
	// and the key of the call and the Attempt; the fields of its end are zero.
	AttemptStarted(ctx context.Context, e AttemptEvent) context.Context
}

// An AttemptEvent is the beginning or the end of one attempt.
type AttemptEvent struct {
	Service, Operation string
	Key                childkey.Key // show its Digest
	Attempt

	// The fields below are zero at the beginning.

	Deliveries int       // how often the callee may have got it; net/http causes more than 1
	Outcome    Outcome   // of this attempt alone
	Action     Action    // what the table says; the call may end all the same
	Status     int       // 0: no complete answer
	Code       wire.Code // "": none
	Elapsed    time.Duration
	Wait       time.Duration // before the next attempt; 0: there is none
	Err        error         // nil after a 2xx answer
}

// A CallEvent is the beginning or the end of a call.
type CallEvent struct {
	Service, Operation string
	Key                childkey.Key // show its Digest

	// The fields below are zero at the beginning.

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
		slog.String("key_digest", e.Key.Digest()), slog.Int("attempt", e.Number),
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

// observeAttempt tells the observer how the attempt ended; a nil a means that no complete
// answer came.
func (r *run) observeAttempt(v Verdict, deliveries int, wait time.Duration, a *answer, err error) {
	if r.client.observer == nil {
		return
	}
	e := AttemptEvent{
		Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key,
		Attempt: r.attempt, Deliveries: deliveries, Outcome: v.Outcome, Action: v.Action,
		Elapsed: time.Since(r.begun), Wait: wait, Err: err,
	}
	if a != nil {
		e.Status, e.Code = a.status, a.code
	}
	r.client.observer.AttemptEnded(r.attempting, e)
}

// observeCall tells the observer how the call ended; a is its last complete
// answer, nil if there is none, and failed its error, nil if there is none.
func (r *run) observeCall(a *answer, failed *Error) {
	if r.client.observer == nil {
		return
	}
	e := CallEvent{
		Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key,
		Attempts: r.attempts, Outcome: Completed, Elapsed: time.Since(r.start),
	}
	if failed != nil {
		e.Outcome, e.Err = failed.Outcome, failed
	}
	if a != nil {
		e.Status, e.Code, e.Replayed = a.status, a.code, a.replayed
	}
	r.client.observer.CallEnded(r.caller, e)
}
