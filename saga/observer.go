package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// An Observer hears how sagas go; [Metrics] is one.
//
// Observe must be safe for concurrent use and return quickly. It is called in the
// goroutines that execute sagas and make their calls, and in those that call verbs. A panic
// in it harms no saga: all observers hear of it, as of an [EventPanic].
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// An Event is an event in the life of a saga or of an engine. Its Kind says which fields are set.
type Event = journal.Event

// The kinds of events; [journal.EventKind] says which fields each of them sets.
const (
	EventAttempt      = journal.EventAttempt
	EventMoved        = journal.EventMoved
	EventTookOver     = journal.EventTookOver
	EventLeaseLost    = journal.EventLeaseLost
	EventDeferred     = journal.EventDeferred
	EventLeftToNewer  = journal.EventLeftToNewer
	EventWriteRefused = journal.EventWriteRefused
	EventJournalError = journal.EventJournalError
	EventNoResult     = journal.EventNoResult
	EventSwept        = journal.EventSwept
	EventSweepError   = journal.EventSweepError
	EventPanic        = journal.EventPanic
	EventHung         = journal.EventHung
)

// observing returns the function that passes the engine's reports to the observers of cfg; nil
// without observers.
func observing(cfg Config) func(context.Context, Event) {
	o := newObservers(cfg)
	if len(o) == 0 {
		return nil
	}
	return o.Observe
}

// observers tells each of several. An observer's panic ends neither its caller nor the others.
type observers []Observer

// newObservers returns the observers of cfg.
func newObservers(cfg Config) observers {
	var o observers
	if cfg.Observer != nil {
		o = append(o, cfg.Observer)
	}
	if cfg.Logger != nil {
		o = append(o, logObserver{cfg.Logger})
	}
	return o
}

// Observe tells each observer of e. If an observer panics, Observe tells all observers of the
// panic.
func (o observers) Observe(ctx context.Context, e Event) {
	for _, one := range o {
		if err := heard(ctx, one, e); err != nil {
			panicked := Event{Kind: EventPanic, ID: e.ID, Err: fmt.Errorf("observer: %w", err)}
			for _, other := range o {
				_ = heard(ctx, other, panicked) // there is nobody else to tell
			}
		}
	}
}

// heard tells one observer. Its error is a panic.
func heard(ctx context.Context, o Observer, e Event) error {
	return graph.Guarded(func() error {
		o.Observe(ctx, e)
		return nil
	})
}

// A logObserver writes events to a log.
type logObserver struct{ *slog.Logger }

func (l logObserver) Observe(ctx context.Context, e Event) {
	switch e.Kind {
	case EventAttempt:
		if e.Err != nil {
			l.logFailedAttempt(ctx, e)
		}
	case EventMoved:
		l.logMove(ctx, e)
	default:
		l.logEngine(ctx, e)
	}
}

func (l logObserver) logFailedAttempt(ctx context.Context, e Event) {
	l.LogAttrs(ctx, slog.LevelDebug, "saga: attempt failed",
		slog.String("id", e.ID.String()), slog.String("name", e.Name), slog.String("step", e.Step),
		slog.Bool("undo", e.Undo), slog.Int("attempt", e.Attempt), slog.String("outcome", e.Outcome.String()),
		slog.Int("status", e.Status), slog.String("code", string(e.Code)), slog.Duration("elapsed", e.Elapsed),
		slog.Duration("wait", e.Wait), slog.Any("err", e.Err))
}

func (l logObserver) logMove(ctx context.Context, e Event) {
	level := slog.LevelInfo
	switch e.To {
	case journal.Running, journal.Completed:
		level = slog.LevelDebug
	case journal.Stuck:
		level = slog.LevelError
	default:
	}
	attrs := []slog.Attr{
		slog.String("id", e.ID.String()), slog.String("name", e.Name),
		slog.String("from", e.From.String()), slog.String("to", e.To.String()), slog.Duration("age", e.Age),
	}
	if f := e.Failure; f != nil {
		attrs = append(attrs, slog.String("reason", string(f.Reason)), slog.String("step", f.Step),
			slog.Bool("undo", f.Undo), slog.String("detail", f.Detail))
	}
	l.LogAttrs(ctx, level, "saga: moved", attrs...)
}

func (l logObserver) logEngine(ctx context.Context, e Event) {
	level := slog.LevelWarn
	switch e.Kind {
	case EventTookOver:
		level = slog.LevelInfo
	case EventSwept:
		level = slog.LevelDebug
	case EventDeferred:
		if e.Count == 0 {
			level = slog.LevelInfo
		}
	case EventPanic, EventHung:
		level = slog.LevelError
	default:
	}
	var attrs []slog.Attr
	if !e.Engine.IsZero() {
		attrs = append(attrs, slog.String("engine", e.Engine.String()))
	}
	if e.ID != (journal.ID{}) {
		attrs = append(attrs, slog.String("id", e.ID.String()))
	}
	if e.Count > 0 || e.Kind == EventDeferred {
		attrs = append(attrs, slog.Int("count", e.Count))
	}
	if e.Elapsed > 0 {
		attrs = append(attrs, slog.Duration("elapsed", e.Elapsed))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	var panicked *sdk.PanicError
	if errors.As(e.Err, &panicked) && panicked.Stack != nil {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	l.LogAttrs(ctx, level, "saga: engine "+string(e.Kind), attrs...)
}

// A Tracer is an [Observer] that also hears when an engine begins and ends its work on a saga, and each
// attempt of a step. It may put a span into their ctx. The ctx that it returns must be derived from the ctx that
// it was given. A Tracer must not panic.
type Tracer interface {
	Observer
	// Trace returns the trace context of ctx, which is that of [Definition.Run] or [Definition.Start]. It has at
	// most [journal.MaxTraceBytes] visible ASCII characters. It is stored with a new saga, and every engine that
	// executes the saga gets it in [journal.RunEvent].Trace. "" stores nothing.
	Trace(ctx context.Context) string
	// RunStarted is called when an engine begins to execute a saga: its own, or one that it took over. All events of
	// the saga and all its steps have the ctx that it returns.
	RunStarted(ctx context.Context, e journal.RunEvent) context.Context
	// RunEnded is called once for each RunStarted, with its ctx. The saga may be over, stuck, asleep, or
	// another engine's.
	RunEnded(ctx context.Context)
	// StepStarted is called before each attempt of a step or an undo. e has Kind, ID, Name, Step, Undo and Attempt.
	StepStarted(ctx context.Context, e Event) context.Context
	// StepEnded is called once for each StepStarted, with its ctx. e also has Outcome, Status, Code and Err. It
	// comes after RunEnded for a call that still ran when the engine lost the saga.
	StepEnded(ctx context.Context, e Event)
}

// tracing returns the observer of cfg as the engine's tracer; nil if it is none.
func tracing(cfg Config) engine.Tracer {
	if t, ok := cfg.Observer.(Tracer); ok {
		return t
	}
	return nil
}
