package engine

import (
	"context"

	"github.com/fanonce/fanonce/saga/journal"
)

// tell reports what concerns the engine.
func (e *Engine) tell(what journal.Event) { e.report(e.ctx, what) }

// report reports an event, if somebody listens.
func (o *Operator) report(ctx context.Context, e journal.Event) {
	if o.observe != nil {
		o.observe(ctx, e)
	}
}
