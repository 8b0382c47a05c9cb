package engine

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// The kinds of events.
const (
	EventAttempt      = "attempt"
	EventMoved        = "moved"
	EventTookOver     = "took over"
	EventLeaseLost    = "lease lost"
	EventDeferred     = "deferred"
	EventLeftToNewer  = "left to newer"
	EventWriteRefused = "write refused"
	EventJournalError = "journal error"
	EventNoResult     = "no result"
	EventSwept        = "swept"
	EventSweepError   = "sweep error"
	EventPanic        = "panic"
)

// An Event is something that an engine reports. Its fields are those of the front's Event.
type Event struct {
	Kind   string
	ID     journal.ID
	Name   string
	Engine journal.EngineID

	Step    string
	Undo    bool
	Attempt int
	Outcome retry.Outcome
	Status  int
	Code    wire.Code
	Wait    time.Duration

	From, To journal.Status
	Failure  *journal.Failure
	Age      time.Duration

	Count   int
	Elapsed time.Duration
	Err     error
}

// tell reports what concerns the engine.
func (e *Engine) tell(what Event) { e.report(e.ctx, what) }

// report reports an event, if somebody listens.
func (o *Operator) report(ctx context.Context, e Event) {
	if o.observe != nil {
		o.observe(ctx, e)
	}
}
