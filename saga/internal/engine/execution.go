package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// An execution is one owner's work on one saga. Its goroutine decides, writes, and begins calls.
// The calls run in goroutines of their own, and report to it.
type execution struct {
	engine *Engine
	lease  *lease
	plan   *graph.Plan
	owner  journal.Owner
	record journal.Record // as it was taken; it does not change
	from   origin
	// readable is the direction for which what others wrote was found readable; 0: none.
	readable journal.Status
	ctx      context.Context // of its calls
	traces   bool            // a tracer's RunStarted was called, with RunEnded to come
	// parent is the parent key of its calls. parentErr says why it has none, as a
	// damaged record has.
	parent    childkey.Key
	parentErr error

	seen     time.Time // when, by this process's clock, the record was read
	revision int64     // without the wakes
	progress *progress
	cause    *journal.Failure // why the saga failed
	deadline time.Time        // that the journal has, or gets with the running write

	waiting atomic.Int32  // functions that wait for other sagas
	endings chan *ending  // of calls
	alarm   *time.Timer   // of await; nil until it is needed
	over    chan struct{} // closed when the execution has ended, and is the engine's no more

	evicting sync.Mutex
	evicted  bool          // no further call may begin
	gone     chan struct{} // closed by evict

	confirmed time.Time // when the journal was asked last that said that the saga is the owner's
	looked    time.Time // when, by the journal's clock, the record was read last; see hearVerbs
	announced bool      // see announce
	ear       ear
	must      bool // what is due must be written before anything else is begun

	// Set before over is closed.
	final journal.Record // where the saga ended, or got stuck
	err   error          // why the execution ended before the saga; nil: it did not
}

// An origin is the way in which an execution got its saga.
type origin uint8

const (
	startedHere origin = iota // this process has just stored it
	neverDriven               // another process has stored it, and no engine had it: no call was sent
	wokenUp                   // its last owner gave it up, and its entries have all sent calls
	takenOver                 // any call may have been sent
)

// An ending is the outcome of an attempt of a task.
type ending struct {
	task      task
	firstSent time.Time // of the attempt
	late      bool      // it was given up before
	dropped   bool      // the execution lost its saga before it began the attempt, or the engine's own end cut that off
	finding   finding
	err       error
	elapsed   time.Duration
}

func newExecution(e *Engine, l *lease, p *graph.Plan, r *journal.Record, from origin, asked time.Time) *execution {
	parent, err := parentKey(r)
	x := &execution{
		engine: e, lease: l, plan: p, record: *r, from: from, confirmed: asked,
		parent: parent, parentErr: err, ctx: childkey.NewContext(l.ctx, parent),
		owner: journal.Owner{ID: r.ID, Engine: r.Engine, Fence: r.Fence},
		seen:  time.Now(), looked: r.Now, revision: r.Revision - r.Wakes, deadline: r.DeadlineAt,
		endings: make(chan *ending, 2*len(p.Steps)), over: make(chan struct{}),
		gone: make(chan struct{}),
	}
	if p.HasAwaits() {
		x.ear.open()
	}
	return x
}

// now is the journal's clock, as far as this process can tell.
func (x *execution) now() time.Time { return x.record.Now.Add(time.Since(x.seen)) }

func (x *execution) isOver() bool {
	select {
	case <-x.over:
		return true
	default:
		return false
	}
}

// run executes the saga until it is final or stuck, or the execution is over.
func (x *execution) run() {
	x.announce()
	err := graph.Guarded(func() error { return x.execute() })
	var panicked *sdk.PanicError
	if errors.As(err, &panicked) {
		x.engine.tell(journal.Event{Kind: journal.EventPanic, Engine: x.owner.Engine, ID: x.owner.ID, Err: err})
		err = x.quarantine(journal.ReasonPanic, err)
	}
	x.err = err
}

// announce tells, once, of a saga that no engine had before.
func (x *execution) announce() {
	if x.owner.Fence > 1 || x.announced {
		return
	}
	x.announced = true
	x.engine.report(x.ctx, journal.Event{
		Kind: journal.EventMoved,
		ID:   x.owner.ID, Name: x.plan.Name, To: journal.Running, Age: x.now().Sub(x.record.CreatedAt),
	})
}

func (x *execution) execute() error {
	if x.record.RecoveryAttempts >= x.engine.cfg.MaxRecoveryAttempts {
		return x.quarantine(journal.ReasonRecoveryAttempts, fmt.Errorf("saga: %d engines died under it", x.record.RecoveryAttempts))
	}
	if x.parentErr != nil {
		return x.quarantine(journal.ReasonCorrupt, x.parentErr)
	}
	if x.progress == nil {
		progress, err := load(x.plan, x.record, x.from != takenOver)
		if err != nil {
			return x.setAside(err)
		}
		x.progress, x.cause = progress, x.record.Cause
		if err := x.outlast(); err != nil {
			return err
		}
	}
	if err := x.unknown(); err != nil {
		return x.setAside(err)
	}
	for {
		if err := x.checkLease(); err != nil {
			return err
		}
		x.giveUpHung()
		x.noteRunning()
		if err := x.moveUncalled(); err != nil {
			return x.setAside(err)
		}
		d := x.progress.decide(x.now())
		x.askAgain(&d)
		if d.status == journal.Completed { // maybe without a call, by a person's word
			if err := x.checkReadable(); err != nil {
				return x.setAside(err)
			}
		}
		if err := x.settle(d); err != nil {
			return err
		}
		if d.status == journal.Compensating {
			continue // it decides anew, about the other direction
		}
		if d.status != 0 {
			return nil
		}
		if x.isClosing() {
			if x.progress.running == 0 {
				return ErrClosed
			}
		} else if over, err := x.beginOrSetAside(&d); over || err != nil {
			return err
		}
		if read, err := x.hearVerbs(&d); err != nil {
			return err
		} else if read {
			continue
		}
		x.await(d.wake)
	}
}

// checkReadable checks, once per direction, that the values of other processes can be read. This
// process encodes all later values itself.
func (x *execution) checkReadable() error {
	p := x.progress
	if x.from == startedHere || x.readable == p.status {
		return nil
	}
	err := p.checkValues(x.record.Input, x.now())
	if err == nil {
		x.readable = p.status
	}
	return err
}

func (x *execution) isClosing() bool { return x.engine.isClosing() }

// await waits for the end of a call, until the time wake (zero: for ever), or until the execution has ended.
func (x *execution) await(wake time.Time) {
	var timeout <-chan time.Time
	if !wake.IsZero() {
		timeout = x.ringAt(wake)
		defer x.alarm.Stop()
	}
	closing := x.engine.closing
	if x.isClosing() {
		closing = nil // seen already
	}
	select {
	case e := <-x.endings:
		x.book(e)
	case <-timeout:
	case <-x.ear.rung:
	case <-closing:
	case <-x.gone:
	case <-x.lease.ctx.Done():
	}
	for { // what ended together is written together
		select {
		case e := <-x.endings:
			x.book(e)
		default:
			return
		}
	}
}

// ringAt sets the execution's alarm. A saga waits once for each of its steps, mostly
// for its own deadline, so that it keeps the timer.
func (x *execution) ringAt(t time.Time) <-chan time.Time {
	left := t.Sub(x.now())
	if x.alarm == nil {
		x.alarm = time.NewTimer(left)
	} else {
		x.alarm.Reset(left)
	}
	return x.alarm.C
}

// book takes in how a call ended. The end of the lease cuts the attempts off, so what ends after it says
// nothing: the next owner finds out what the call did.
func (x *execution) book(e *ending) {
	p, now := x.progress, x.now()
	if e.late {
		return // it only wakes the execution: its undo may begin now
	}
	if e.dropped || x.lease.ctx.Err() != nil {
		p.drop(e.task)
		return
	}
	l := p.leg(e.task)
	wait := x.engine.cfg.wait(e.task.step.Policy.Backoff, l.attempts+1, e.finding.after)
	open := !p.isCommitted()
	p.end(e.task, e.finding, e.firstSent, now, wait)
	if open && p.status == journal.Running && p.isCommitted() {
		p.renew(now)
	}
	switch {
	case l.isEnded():
		l.owe()
		x.must = true
		wait = 0
	case !e.task.undo && p.isExhausted(e.task.step):
		l.owe()
		x.must = true
		wait = 0
	case wait > time.Second:
		l.owe()
		x.must = true
	}
	x.engine.report(x.ctx, journal.Event{
		Kind: journal.EventAttempt,
		ID:   x.owner.ID, Name: x.plan.Name, Step: e.task.step.Name, Each: e.task.step.Each, Undo: e.task.undo, Attempt: l.attempts,
		Outcome: l.outcome, Status: e.finding.status, Code: e.finding.code,
		Elapsed: e.elapsed, Wait: wait, Err: e.err,
	})
}

// parentKey returns the parent key of the saga's calls: the hop key of its key. The
// error is for a record that no engine of this version has stored.
func parentKey(r *journal.Record) (childkey.Key, error) {
	parent, err := childkey.Hop(r.Scope, "saga/"+r.Name, r.Key)
	if err != nil {
		return childkey.Key{}, fmt.Errorf("%w: %w", journal.ErrCorrupt, err)
	}
	return parent, nil
}
