package inbox

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server"
)

// observe tells the guard's observer how a delivery ended. made is the attempt that it made, or 0.
func (a *attempt) observe(ctx context.Context, result Result, made int, err error) {
	e := server.Event{Kind: kindOf(result, err), Route: a.inbox.task.Name, Count: made, Err: err}
	if !a.message.Published.IsZero() {
		e.Duration = max(time.Since(a.message.Published), 0) // the clocks may differ
	}
	a.inbox.guard.Observe(ctx, e)
}

// kindOf returns the kind of the event. A repeat of a message that was dead before has no error.
func kindOf(result Result, err error) server.EventKind {
	switch {
	case result == Ran:
		return server.EventMessageRan
	case result == Duplicate, result == Dead && err == nil:
		return server.EventMessageDuplicate
	case result == Dead:
		return server.EventMessageDead
	case result == Busy:
		return server.EventMessageBusy
	default:
		return server.EventMessageFailed
	}
}
