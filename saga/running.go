package saga

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanonce/fanonce/retry"
)

// ownedFor is how long an owner relies on the journal's last word that the saga is its
// own. After that it asks again before it begins a call. Whoever takes a saga from its
// owner in another process waits as long.
const ownedFor = time.Second

// A callID names a call of one saga.
type callID struct {
	saga ID
	step int
	undo bool
}

// A runningCall is a call that an execution makes in this process.
type runningCall struct {
	ended   chan struct{} // closed when it has ended
	verdict verdict       // of the call; set before
}

// running are the calls that this process makes now. An execution that lost its saga may
// still make a call. Another execution of the saga waits for that, and makes it no second
// time beside the first.
type running struct {
	mu    sync.Mutex
	calls map[callID]*runningCall
}

// enter returns the running call with that ID. If mine is true the caller makes it, and
// must call leave.
func (r *running) enter(id callID) (c *runningCall, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.calls[id]; c != nil {
		return c, false
	}
	c = &runningCall{ended: make(chan struct{})}
	r.calls[id] = c
	return c, true
}

// of returns the running call with that ID; nil if there is none.
func (r *running) of(id callID) *runningCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[id]
}

// leave says how the call has ended.
func (r *running) leave(id callID, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[id]
	delete(r.calls, id)
	c.verdict = v
	close(c.ended)
}

func (d *drive) callID(t task) callID { return callID{d.owner.ID, t.step.index, t.undo} }

// evict makes the drive begin no further call. When it returns, none begins. Calls that
// are running go on.
func (d *drive) evict() {
	d.gate.Lock()
	defer d.gate.Unlock()
	if !d.evicted {
		d.evicted = true
		close(d.gone)
	}
}

func (d *drive) isGone() bool {
	select {
	case <-d.gone:
		return true
	default:
		return false
	}
}

// enter books a call of the drive as running, unless the drive was evicted.
func (d *drive) enter(t task) (c *runningCall, mine bool, err error) {
	d.gate.Lock()
	defer d.gate.Unlock()
	if d.evicted {
		return nil, false, ErrLeaseLost
	}
	c, mine = d.engine.running.enter(d.callID(t))
	return c, mine, nil
}

// waitFor waits until an earlier execution of the saga in this process has ended the call
// c of t. If c completed, its verdict is this execution's too. After any other end the drive
// enters the call itself, and enters is true. The error says that the drive is over.
func (d *drive) waitFor(t task, c *runningCall) (v verdict, enters bool, err error) {
	for {
		select {
		case <-c.ended:
		case <-d.gone:
			return verdict{}, false, ErrLeaseLost
		case <-d.ctx.Done():
			return verdict{}, false, context.Cause(d.ctx)
		}
		if c.verdict.outcome == retry.Completed {
			return c.verdict, false, nil
		}
		next, mine, err := d.enter(t)
		if mine || err != nil {
			return verdict{}, mine, err
		}
		c = next
	}
}

// outlast waits, in a saga that goes back, for the calls of an earlier execution in this
// process whose steps have no undo. Nobody finds out what these did, but no step before them
// is to be undone while they run.
func (d *drive) outlast() error {
	if d.progress.status != Compensating && !d.record.Cancel {
		return nil
	}
	for _, s := range d.plan.steps {
		c := d.engine.running.of(d.callID(task{s, false}))
		if c == nil || !s.leavesNothing() {
			continue
		}
		select {
		case <-c.ended:
		case <-d.gone:
			return ErrLeaseLost
		case <-d.ctx.Done():
			return context.Cause(d.ctx)
		}
	}
	return nil
}

// stillOwned asks the journal whether the saga is still this owner's, unless it has said
// so of late. A verb or another owner may have taken it.
func (d *drive) stillOwned() error {
	if time.Since(d.confirmed) <= ownedFor {
		return nil
	}
	sent := time.Now()
	r, err := d.engine.journal.Read(d.life.ctx, d.owner.ID)
	switch {
	case d.life.ctx.Err() != nil:
		return context.Cause(d.life.ctx)
	case errors.Is(err, ErrNotFound), err == nil && (r.Engine != d.owner.Engine || r.Fence != d.owner.Fence):
		return ErrLeaseLost
	case err != nil:
		d.engine.tell(EngineEvent{Kind: EngineJournalError, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
		return err
	}
	d.confirmed = sent
	return nil
}

// outwait returns when no execution in another process begins a further call of a saga
// that a verb took from it. The saga was as was says.
func outwait(ctx context.Context, was, _ Record) error {
	if !was.Status.Driven() || was.Engine.IsZero() || pause(ctx, ownedFor) {
		return nil
	}
	return ended(ctx)
}

// changed is outwait for a verb of this engine, which evicts an execution of its own, and
// takes the saga over if it can.
func (e *Engine) changed(ctx context.Context, was, now Record) error {
	e.look()
	if d := e.driven(was.ID); d != nil && d.owner.Fence < now.Fence {
		d.evict()
	}
	if was.Engine == e.current().id { // a drive that is not the saga's any more was evicted by the next one
		return nil
	}
	return outwait(ctx, was, now)
}
