package saga

import (
	"context"

	"github.com/fanonce/fanonce/saga/internal/engine"
)

// An Engine executes sagas: those that its own process starts, and those whose
// engine is gone. A process needs one. It is safe for concurrent use; make it
// with [Open] and end it with [Engine.Close].
type Engine struct {
	operator
	core *engine.Engine
}

// Close ends the engine. It begins no further call, waits for the calls that run, and
// stores how they ended. Other engines then claim its sagas. Runs that wait return
// [ErrDetached]. A second Close returns [ErrClosed].
//
// Once ctx ends, Close waits no longer, cuts the running calls off, and returns an error. The
// next owners of their sagas find out what these calls did. Close does not wait for functions that were given up
// ([EventHung]). A write that is running then ends
// when the journal answers, or is closed. Close the journal after the engine.
func (e *Engine) Close(ctx context.Context) error { return e.core.Close(ctx) }

// RunSweeper deletes sagas that are final for longer than [Config].Keep, until ctx ends or
// [Engine.Close] is called, which waits for it. Call it in a goroutine of its own.
//
// It begins a round about every [Config].SweepInterval, and deletes in batches of
// [Config].SweepBatch until nothing is left. Between two batches it rests four times as long as
// the last one took, at most a second: so the engine's own writes hardly feel it.
// Each batch that deleted sagas is an [EventSwept].
//
// A failure is an [EventSweepError]. RunSweeper tries again, ever more rarely, but about once a
// round at the least. One sweeper for a journal is enough; several share the work. It returns at
// once if the engine is closed.
func (e *Engine) RunSweeper(ctx context.Context) { e.core.RunSweeper(ctx) }
