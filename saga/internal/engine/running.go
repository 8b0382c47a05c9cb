package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// ownedFor is how long an owner relies on the journal's last confirmation that it owns the saga.
// After that it asks again before it begins a call. A verb that takes a saga from its owner in
// another process waits for the same time.
const ownedFor = time.Second

// A callID names a call of one saga.
type callID struct {
	saga journal.ID
	step int
	undo bool
}

// A runningCall is a call that an execution makes in this process.
type runningCall struct {
	ended   chan struct{} // closed when the call has ended; nil while no execution waits for that
	finding *finding      // of the call; set before
}

// running are the calls that this process makes now. An execution that lost its saga may still
// make a call. Another execution of the saga waits for this call, and does not make it a second
// time meanwhile.
type running struct {
	mu    sync.Mutex
	calls map[callID]*runningCall
}

// enter returns the running call with that ID. If mine is true the caller makes it, and
// must call leave.
func (r *running) enter(id callID) (c *runningCall, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.findLocked(id); c != nil {
		return c, false
	}
	c = new(runningCall)
	r.calls[id] = c
	return c, true
}

// findLocked returns the running call with that ID, with a channel to wait for its end; nil if
// there is none. The caller holds r.mu.
func (r *running) findLocked(id callID) *runningCall {
	c := r.calls[id]
	if c != nil && c.ended == nil {
		c.ended = make(chan struct{})
	}
	return c
}

// find returns the running call with that ID; nil if there is none.
func (r *running) find(id callID) *runningCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.findLocked(id)
}

// leave records the outcome of the call. The caller must not change v afterwards.
func (r *running) leave(id callID, v *finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[id]
	delete(r.calls, id)
	c.finding = v
	if c.ended != nil {
		close(c.ended)
	}
}

func (x *execution) callID(t task) callID { return callID{x.owner.ID, t.step.Index, t.undo} }

// evict makes the execution begin no further call. When it returns, none begins. Running calls
// continue.
func (x *execution) evict() {
	x.evicting.Lock()
	defer x.evicting.Unlock()
	if !x.evicted {
		x.evicted = true
		close(x.gone)
	}
}

// ended returns why the execution is over before its saga: it was evicted, or its lease has ended. Nothing that
// an attempt says counts any more then. It is nil while the execution goes on.
func (x *execution) ended() error {
	select {
	case <-x.gone:
		return journal.ErrLeaseLost
	default:
		return context.Cause(x.lease.ctx)
	}
}

// enter records a call of the execution as running, unless the execution was evicted.
func (x *execution) enter(t task) (c *runningCall, mine bool, err error) {
	x.evicting.Lock()
	defer x.evicting.Unlock()
	if x.evicted {
		return nil, false, journal.ErrLeaseLost
	}
	c, mine = x.engine.running.enter(x.callID(t))
	return c, mine, nil
}

// waitFor waits until an earlier execution of the saga in this process has ended the call
// c of t. If c completed, its finding is this execution's too. After any other end the execution
// enters the call itself, and enters is true. The error says that the execution is over.
func (x *execution) waitFor(t task, c *runningCall) (v finding, enters bool, err error) {
	for {
		if err := x.waitForEnd(c); err != nil {
			return finding{}, false, err
		}
		if c.finding.outcome == retry.Completed {
			return *c.finding, false, nil
		}
		next, mine, err := x.enter(t)
		if mine || err != nil {
			return finding{}, mine, err
		}
		c = next
	}
}

// outlast waits, in a saga that goes back, for calls of an earlier execution in this process, of
// steps without an undo. The outcomes of these calls do not matter. But no step before them may
// be undone while they run.
func (x *execution) outlast() error {
	if x.progress.status != journal.Compensating && !x.record.Cancel {
		return nil
	}
	for _, s := range x.plan.Steps {
		c := x.engine.running.find(x.callID(task{s, false}))
		if c == nil || !s.leavesNothing() {
			continue
		}
		if err := x.waitForEnd(c); err != nil {
			return err
		}
	}
	return nil
}

// waitForEnd waits until the call has ended, or returns why the execution has.
func (x *execution) waitForEnd(c *runningCall) error {
	select {
	case <-c.ended:
	case <-x.gone:
	case <-x.lease.ctx.Done():
	}
	return x.ended()
}

// stillOwned asks the journal whether this owner still has the saga, unless the journal confirmed
// it recently. A verb or another owner may have taken it.
func (x *execution) stillOwned() error {
	if time.Since(x.confirmed) < ownedFor {
		return nil
	}
	return x.readAgain()
}

// readAgain reads the saga's record. The error is an ErrLeaseLost if the saga is this owner's no
// more. A wait that a person has ended in the record ends.
func (x *execution) readAgain() error {
	sent := time.Now()
	r, err := x.engine.journal.Read(x.lease.ctx, x.owner.ID)
	switch {
	case x.lease.ctx.Err() != nil:
		return context.Cause(x.lease.ctx)
	case errors.Is(err, journal.ErrNotFound), err == nil && (r.Engine != x.owner.Engine || r.Fence != x.owner.Fence):
		return journal.ErrLeaseLost
	case err != nil:
		x.engine.tell(journal.Event{Kind: journal.EventJournalError, Engine: x.owner.Engine, ID: x.owner.ID, Err: err})
		return err
	}
	x.confirmed = sent
	if r.Corrupt == nil {
		x.progress.endWaits(r.Entries)
	}
	return nil
}

// waitOutOwner returns when no execution in another process can begin a further call of a saga
// that a verb took. was is the saga before the verb, and now is the saga after it. RetryNow does
// not take the saga from its owner.
func waitOutOwner(ctx context.Context, was, now journal.Record) error {
	if !was.Status.Active() || was.Engine.IsZero() || was.Fence == now.Fence || pause(ctx, ownedFor) {
		return nil
	}
	return Ended(ctx)
}

// evictOwner returns, after a verb of this engine, when no execution of the saga can begin a further
// call. It evicts this engine's own execution, and waits for one of another process as
// waitOutOwner does. It also makes the engine look for the saga, to take it over if it can.
func (e *Engine) evictOwner(ctx context.Context, was, now journal.Record) error {
	e.look()
	x := e.executing(was.ID)
	if x != nil && x.owner.Fence < now.Fence {
		x.evict()
	}
	switch {
	case x == nil || x.owner.Fence < was.Fence: // its owner is elsewhere, or is about to begin here
	case x.owner.Fence == was.Fence, was.Engine == e.current().id: // it is evicted, by this or by the next one
		return nil
	}
	return waitOutOwner(ctx, was, now)
}
