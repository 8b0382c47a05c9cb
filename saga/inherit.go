package saga

import (
	"context"
	"time"
)

// inherit takes over what an execution in this process knew from which a person has just
// cancelled the saga: how its calls ended, and which calls never began. The journal does
// not know the last of it, and with CheckpointEdges next to nothing. Then the next owner
// would begin steps only to undo them.
//
// The fence shows that no other owner was between: one verb and one claim.
func (d *drive) inherit() error {
	old := d.before
	d.before = nil
	if old == nil || !d.record.Cancel || old.record.Cancel || d.owner.Fence != old.owner.Fence+2 {
		return nil
	}
	select {
	case <-old.over: // it may make a call itself
	case <-d.gone:
		return ErrLeaseLost
	case <-d.ctx.Done():
		return context.Cause(d.ctx)
	}
	g, known := d.progress, old.progress
	if known == nil || known.status != g.status || d.record.Revision != old.revision+2 {
		return nil // a write of the old execution may have arrived that it does not know of
	}
	for len(old.endings) > 0 {
		old.book(<-old.endings)
	}
	for i := range g.plan.steps {
		g.forward[i], g.undo[i] = inherited(known.forward[i]), inherited(known.undo[i])
	}
	g.deadline, g.renewed = known.deadline, known.renewed
	return nil
}

// linger keeps what an evicted execution knows until the next one of this process can
// inherit it, which claims the saga at once if it can. It takes in how running calls end.
func (d *drive) linger() {
	if !d.isGone() {
		return // its lease is over
	}
	var enough <-chan time.Time
	timer := time.NewTimer(ownedFor)
	defer timer.Stop()
	for enough = timer.C; enough != nil || d.progress != nil && d.progress.running > 0; {
		select {
		case e := <-d.endings:
			d.book(e)
		case <-enough:
			enough = nil
		case <-d.heir:
			return
		case <-d.engine.closing:
			return
		case <-d.life.ctx.Done():
			return
		}
	}
}

// inherited returns a leg for the next execution. What still runs may have an effect.
func inherited(l leg) leg {
	l.maybe = l.maybe || l.running
	l.running, l.tried = false, false
	l.dirty = l.known
	return l
}
