package saga

import (
	"context"

	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/journal"
)

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
