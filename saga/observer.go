package saga

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// An Observer hears how sagas go; [Metrics] is one. Its methods must be safe for concurrent
// use and return quickly: they are called in the goroutines that drive sagas, of several
// sagas at once, and of one saga EngineEvent also in those of its calls, beside the others,
// and SagaMoved also in that of a verb's caller. A panic in one harms no saga: all
// observers hear of it, by EngineEvent, as of an [EnginePanic].
type Observer interface {
	// TryEnded is called after each try of a step or an undo.
	TryEnded(ctx context.Context, e TryEvent)
	// SagaMoved is called when a saga's status has changed, after that is
	// stored, by the engine that changed it; and when one is started, or claimed for
	// the first time if nobody drove it before.
	SagaMoved(ctx context.Context, e MoveEvent)
	// EngineEvent is called for what concerns an engine.
	EngineEvent(ctx context.Context, e EngineEvent)
}

// A TryEvent is the end of one try.
type TryEvent struct {
	ID      ID
	Name    string // of the saga
	Step    string
	Undo    bool
	Try     int // counts from 1, in this direction; with those of other processes
	Outcome retry.Outcome
	Status  int       // 0: no complete answer
	Code    wire.Code // "": none
	Elapsed time.Duration
	Wait    time.Duration // before the next try; 0: there is none
	Err     error         // nil after a success
}

// A MoveEvent is a change of a saga's status.
type MoveEvent struct {
	ID       ID
	Name     string
	From, To Status // From is 0 for a saga that was started
	Failure  *Failure
	Age      time.Duration // since the saga's start
}

// An EngineEventKind is what an [EngineEvent] is about.
type EngineEventKind string

// The kinds.
const (
	EngineTookOver     EngineEventKind = "took over"     // Count sagas of engines that are gone, or that a verb set going
	EngineLeaseLost    EngineEventKind = "lease lost"    // its own lease ended; it goes on under another ID
	EngineParked       EngineEventKind = "parked"        // Count orphans wait for another build, the first because of Err; 0 once that is over
	EngineLeftToNewer  EngineEventKind = "left to newer" // it parked the saga, since it does not know a part of it: Err
	EngineWriteRefused EngineEventKind = "write refused" // a saga has another owner by now
	EngineJournalError EngineEventKind = "journal error" // Err, and it tries again
	EngineNoResult     EngineEventKind = "no result"     // a saga completed, and Err is why its result is not kept
	EngineSwept        EngineEventKind = "swept"         // [Engine.RunSweeper] deleted Count sagas; Elapsed is what the journal took
	EngineSweepError   EngineEventKind = "sweep error"   // Err, and [Engine.RunSweeper] tries again
	EnginePanic        EngineEventKind = "panic"         // Err, of a function of the plan or an Observer; often a [*PanicError] with the stack
)

// An EngineEvent is something that concerns an engine.
type EngineEvent struct {
	Kind    EngineEventKind
	Engine  EngineID
	ID      ID // of the saga, where it is about one
	Count   int
	Elapsed time.Duration // of an [EngineSwept]; else 0
	Err     error
}

// observers tells each of several. None of them can end what tells it, nor keep it from
// the others.
type observers []Observer

func (o observers) TryEnded(ctx context.Context, e TryEvent) {
	o.each(ctx, e.ID, func(one Observer) { one.TryEnded(ctx, e) })
}

func (o observers) SagaMoved(ctx context.Context, e MoveEvent) {
	o.each(ctx, e.ID, func(one Observer) { one.SagaMoved(ctx, e) })
}

func (o observers) EngineEvent(ctx context.Context, e EngineEvent) {
	o.each(ctx, e.ID, func(one Observer) { one.EngineEvent(ctx, e) })
}

// each calls tell with each observer, and tells all of those that panic.
func (o observers) each(ctx context.Context, id ID, tell func(Observer)) {
	for _, one := range o {
		if err := heard(one, tell); err != nil {
			e := EngineEvent{Kind: EnginePanic, ID: id, Err: fmt.Errorf("observer: %w", err)}
			for _, other := range o {
				_ = heard(other, func(other Observer) { other.EngineEvent(ctx, e) }) // there is nobody else to tell
			}
		}
	}
}

// heard calls tell with the observer. Its error is a panic.
func heard(o Observer, tell func(Observer)) error {
	return guarded(func() error {
		tell(o)
		return nil
	})
}

// newObservers returns who listens by cfg.
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

// A logObserver writes events to a log.
type logObserver struct{ *slog.Logger }

func (l logObserver) TryEnded(ctx context.Context, e TryEvent) {
	if e.Err == nil {
		return
	}
	l.LogAttrs(ctx, slog.LevelDebug, "saga: try failed",
		slog.String("id", e.ID.String()), slog.String("name", e.Name), slog.String("step", e.Step),
		slog.Bool("undo", e.Undo), slog.Int("try", e.Try), slog.String("outcome", e.Outcome.String()),
		slog.Int("status", e.Status), slog.String("code", string(e.Code)), slog.Duration("elapsed", e.Elapsed),
		slog.Duration("wait", e.Wait), slog.Any("err", e.Err))
}

func (l logObserver) SagaMoved(ctx context.Context, e MoveEvent) {
	level := slog.LevelInfo
	switch e.To {
	case Running, Completed:
		level = slog.LevelDebug
	case Stuck:
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

func (l logObserver) EngineEvent(ctx context.Context, e EngineEvent) {
	level := slog.LevelWarn
	switch e.Kind {
	case EngineTookOver:
		level = slog.LevelInfo
	case EngineSwept:
		level = slog.LevelDebug
	case EngineParked:
		if e.Count == 0 {
			level = slog.LevelInfo
		}
	case EnginePanic:
		level = slog.LevelError
	default:
	}
	var attrs []slog.Attr
	if !e.Engine.IsZero() {
		attrs = append(attrs, slog.String("engine", e.Engine.String()))
	}
	if e.ID != (ID{}) {
		attrs = append(attrs, slog.String("id", e.ID.String()))
	}
	if e.Count > 0 || e.Kind == EngineParked {
		attrs = append(attrs, slog.Int("count", e.Count))
	}
	if e.Elapsed > 0 {
		attrs = append(attrs, slog.Duration("elapsed", e.Elapsed))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("err", e.Err))
	}
	var panicked *PanicError
	if errors.As(e.Err, &panicked) && panicked.Stack != nil {
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	}
	l.LogAttrs(ctx, level, "saga: engine "+string(e.Kind), attrs...)
}
