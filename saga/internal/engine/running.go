package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// ownedFor is how long an owner relies on the journal's last confirmation that it owns the saga.
// After that it asks again before it begins a call. A verb that takes a saga from its owner in
// another process waits for the same time.
const ownedFor = time.Second

// A callID names a call of one saga, under each version of its definition.
type callID struct {
	saga journal.ID
	step string
	undo bool
}

// A runningCall is a call that an execution makes in this process.
type runningCall struct {
	plan    *graph.Plan   // of the execution that makes it
	ended   chan struct{} // closed when the call has ended; nil while no execution waits for that
	finding *finding      // of the call; set before
	left    chan struct{} // closed when the call has ended or is given up; nil as above
	givenUp bool          // its function has not returned by its deadline
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
func (r *running) enter(id callID, p *graph.Plan) (c *runningCall, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.findLocked(id); c != nil {
		return c, false
	}
	c = &runningCall{plan: p}
	r.calls[id] = c
	return c, true
}

// findLocked returns the running call with that ID, with a channel to wait for its end; nil if
// there is none. The caller holds r.mu.
func (r *running) findLocked(id callID) *runningCall {
	c := r.calls[id]
	if c != nil && c.ended == nil {
		c.ended, c.left = make(chan struct{}), make(chan struct{})
		if c.givenUp {
			close(c.left)
		}
	}
	return c
}

// find returns the running call with that ID; nil if there is none.
func (r *running) find(id callID) *runningCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.findLocked(id)
}

// leave records the outcome of the call, and returns whether it had been given up. The caller must not change v
// afterwards.
func (r *running) leave(id callID, v *finding) (givenUp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[id]
	delete(r.calls, id)
	c.finding = v
	if c.ended != nil {
		close(c.ended)
		if !c.givenUp {
			close(c.left)
		}
	}
	return c.givenUp
}

// giveUp records that nobody counts on the end of the call any more. It returns false if the call has ended, or was
// given up before.
func (r *running) giveUp(id callID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[id]
	if c == nil || c.givenUp {
		return false
	}
	c.givenUp = true
	if c.left != nil {
		close(c.left)
	}
	return true
}

// has reports whether there is a running call with that ID, and whether it is given up.
func (r *running) has(id callID) (is, givenUp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.calls[id]
	return c != nil, c != nil && c.givenUp
}

func (x *execution) callID(t task) callID { return callID{x.owner.ID, t.step.Name, t.undo} }

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

// checkLease returns why the execution is over before its saga: it was evicted, or its lease has ended. Nothing that
// an attempt says counts any more then. It is nil while the execution goes on.
func (x *execution) checkLease() error {
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
	c, mine = x.engine.running.enter(x.callID(t), x.plan)
	return c, mine, nil
}

// waitFor waits until an earlier execution of the saga in this process has ended the call
// c of t. If c completed, its finding is this execution's too, unless its result may be of the type of another version.
// After any other end the execution enters the call itself, and enters is true. The error says that the execution is over.
func (x *execution) waitFor(t task, c *runningCall, giveUp <-chan time.Time) (v finding, enters bool, err error) {
	for {
		if err := x.waitForEnd(c.ended, giveUp); err != nil {
			return finding{}, false, err
		}
		if c.finding.outcome == retry.Completed && c.plan == x.plan {
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
// be undone while they run, unless they are given up.
func (x *execution) outlast() error {
	if x.progress.status != journal.Compensating && !x.record.Cancel {
		return nil
	}
	for _, s := range x.progress.plan.Steps {
		c := x.engine.running.find(x.callID(task{s, false}))
		if c == nil || !s.LeavesNothing() {
			continue
		}
		timer := time.NewTimer(s.AttemptTimeout + returnsWithin)
		err := x.waitForEnd(c.left, timer.C)
		timer.Stop()
		if err != nil && !errors.Is(err, errHung) {
			return err
		}
	}
	return nil
}

// waitForEnd waits until a call has ended, or returns why the execution has, or errHung after giveUp.
func (x *execution) waitForEnd(ended <-chan struct{}, giveUp <-chan time.Time) error {
	select {
	case <-ended:
	case <-x.gone:
	case <-x.lease.ctx.Done():
	case <-giveUp:
		if err := x.checkLease(); err != nil {
			return err
		}
		return errHung
	}
	return x.checkLease()
}

// returnsWithin is how long after its deadline a function may return. Then it is given up.
const returnsWithin = 10 * time.Second

// errHung is the end of an attempt whose function is given up: what the function does is unknown.
var errHung = errors.New("the function has not returned by its deadline")

// giveUpHung gives up the attempts whose functions should have returned by now. Their goroutines go on. The next
// attempt of such a call waits for them, and the undo of the call is not begun before they have ended.
func (x *execution) giveUpHung() {
	now := x.now()
	for _, s := range x.progress.plan.Steps {
		for _, t := range [...]task{{s, false}, {s, true}} {
			l := x.progress.leg(t)
			if l.isRunning() && !now.Before(l.due) && x.giveUp(t) {
				x.book(&ending{task: t, firstSent: l.sends, finding: finding{outcome: retry.Unknown, detail: errHung.Error()}, err: errHung})
			}
		}
	}
}

// giveUp gives up a call of this process. It returns false if that has ended, or was given up before.
func (x *execution) giveUp(t task) bool {
	if !x.engine.running.giveUp(x.callID(t)) {
		return false
	}
	x.engine.work.Done() // nobody waits for it
	x.engine.tell(journal.Event{
		Kind: journal.EventHung, Engine: x.owner.Engine, ID: x.owner.ID, Name: x.plan.Name, Step: t.step.Name, Each: t.step.Each, Undo: t.undo, Err: errHung,
	})
	return true
}

// noteRunning notes which calls of steps still run in this process although this execution does not wait for them: an
// earlier one began them, or they were given up. Their undos must not be begun.
func (x *execution) noteRunning() {
	if x.progress.status != journal.Compensating {
		return
	}
	for _, s := range x.progress.plan.Steps {
		t := task{s, false}
		l := x.progress.leg(t)
		if s.Undo == nil || l.isRunning() {
			continue
		}
		was := l.lingers
		l.lingers, l.hung = x.engine.running.has(x.callID(t))
		switch now := x.now(); {
		case !l.lingers || l.hung:
		case !was:
			l.due = now.Add(s.AttemptTimeout + returnsWithin)
		case !now.Before(l.due):
			l.hung = x.giveUp(t)
		}
	}
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
