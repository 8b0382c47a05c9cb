package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// An execution is one owner's work on one saga. Its goroutine decides, writes, and begins calls.
// The calls run in goroutines of their own, and report to it.
type execution struct {
	engine *Engine
	lease  *lease
	plan   *Plan
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
	revision int64
	progress *progress
	cause    *journal.Failure // why the saga failed
	deadline time.Time        // that the journal has, or gets with the running write

	endings chan *ending  // of calls
	alarm   *time.Timer   // of await; nil until it is needed
	over    chan struct{} // closed when the execution has ended, and is the engine's no more

	evicting sync.Mutex
	evicted  bool          // no further call may begin
	gone     chan struct{} // closed by evict

	confirmed time.Time // when the journal was asked last that said that the saga is the owner's
	looked    time.Time // when, by the journal's clock, the record was read last; see hearVerbs
	announced bool      // see announce
	must      bool      // what is dirty must be written before anything else is begun

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
	task    task
	dropped bool // the execution lost its saga before it began the attempt
	finding finding
	err     error
	elapsed time.Duration
}

func newExecution(e *Engine, l *lease, p *Plan, r *journal.Record, from origin, asked time.Time) *execution {
	parent, err := parentKey(r)
	return &execution{
		engine: e, lease: l, plan: p, record: *r, from: from, confirmed: asked,
		parent: parent, parentErr: err, ctx: childkey.NewContext(l.ctx, parent),
		owner: journal.Owner{ID: r.ID, Engine: r.Engine, Fence: r.Fence},
		seen:  time.Now(), looked: r.Now, revision: r.Revision, deadline: r.DeadlineAt,
		endings: make(chan *ending, 2*len(p.Steps)), over: make(chan struct{}),
		gone: make(chan struct{}),
	}
}

// now is the journal's clock, as far as this process can tell.
func (d *execution) now() time.Time { return d.record.Now.Add(time.Since(d.seen)) }

func (d *execution) isOver() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}

// run executes the saga until it is final or stuck, or the execution is over.
func (d *execution) run() {
	d.announce()
	err := Guarded(func() error { return d.execute() })
	var panicked *sdk.PanicError
	if errors.As(err, &panicked) {
		d.engine.tell(journal.Event{Kind: journal.EventPanic, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
		err = d.quarantine(journal.ReasonPanic, err)
	}
	d.err = err
}

// announce tells, once, of a saga that no engine had before.
func (d *execution) announce() {
	if d.owner.Fence > 1 || d.announced {
		return
	}
	d.announced = true
	d.engine.report(d.ctx, journal.Event{
		Kind: journal.EventMoved,
		ID:   d.owner.ID, Name: d.plan.Name, To: journal.Running, Age: d.now().Sub(d.record.CreatedAt),
	})
}

func (d *execution) execute() error {
	if d.record.RecoveryAttempts >= d.engine.cfg.MaxRecoveryAttempts {
		return d.quarantine(journal.ReasonRecoveryAttempts, fmt.Errorf("saga: %d engines died under it", d.record.RecoveryAttempts))
	}
	if d.parentErr != nil {
		return d.quarantine(journal.ReasonCorrupt, d.parentErr)
	}
	if d.progress == nil {
		progress, err := d.plan.load(d.record, d.from != takenOver)
		if err != nil {
			return d.setAside(err)
		}
		d.progress, d.cause = progress, d.record.Cause
		if err := d.outlast(); err != nil {
			return err
		}
	}
	if err := d.unknown(); err != nil {
		return d.setAside(err)
	}
	for {
		if d.isGone() {
			return journal.ErrLeaseLost
		}
		decision := d.progress.decide(d.now())
		if decision.status == journal.Completed { // maybe without a call, by a person's word
			if err := d.legible(); err != nil {
				return d.setAside(err)
			}
		}
		if err := d.settle(decision); err != nil {
			return err
		}
		if decision.status == journal.Compensating {
			continue // it decides anew, about the other direction
		}
		if decision.status != 0 {
			return nil
		}
		if d.closing() {
			if d.progress.running == 0 {
				return ErrClosed
			}
		} else if over, err := d.beginOrSetAside(&decision); over || err != nil {
			return err
		}
		if read, err := d.hearVerbs(&decision); err != nil {
			return err
		} else if read {
			continue
		}
		if err := d.await(decision.wake); err != nil {
			return err
		}
	}
}

// legible checks, once per direction, that the values of other processes can be read. This
// process encodes all later values itself.
func (d *execution) legible() error {
	g := d.progress
	if d.from == startedHere || d.readable == g.status {
		return nil
	}
	err := g.legible(d.record.Input, d.now())
	if err == nil {
		d.readable = g.status
	}
	return err
}

func (d *execution) closing() bool { return d.engine.isClosing() }

// await waits for the end of a call, or until the time wake; zero: for ever.
func (d *execution) await(wake time.Time) error {
	var timeout <-chan time.Time
	if !wake.IsZero() {
		timeout = d.ringAt(wake)
		defer d.alarm.Stop()
	}
	closing := d.engine.closing
	if d.closing() {
		closing = nil // seen already
	}
	select {
	case e := <-d.endings:
		d.book(e)
	case <-timeout:
	case <-closing:
	case <-d.gone:
		return journal.ErrLeaseLost
	case <-d.lease.ctx.Done():
		return context.Cause(d.lease.ctx)
	}
	for { // what ended together is written together
		select {
		case e := <-d.endings:
			d.book(e)
		default:
			return nil
		}
	}
}

// ringAt sets the execution's alarm. A saga waits once for each of its steps, mostly
// for its own deadline, so that it keeps the timer.
func (d *execution) ringAt(t time.Time) <-chan time.Time {
	left := t.Sub(d.now())
	if d.alarm == nil {
		d.alarm = time.NewTimer(left)
	} else {
		d.alarm.Reset(left)
	}
	return d.alarm.C
}

// book takes in how a call ended.
func (d *execution) book(e *ending) {
	g, now := d.progress, d.now()
	if e.dropped {
		g.drop(e.task)
		return
	}
	l := g.leg(e.task)
	wait := d.engine.cfg.wait(e.task.step.Policy.Backoff, l.attempts+1, e.finding.after)
	open := !g.committed()
	g.end(e.task, e.finding, now, wait)
	if open && g.status == journal.Running && g.committed() {
		g.renew(now)
	}
	switch {
	case l.final:
		l.dirty, d.must = true, true
		wait = 0
	case !e.task.undo && g.exhausted(e.task.step):
		l.dirty, d.must = true, true
		wait = 0
	case wait > time.Second:
		l.dirty, d.must = true, true
	}
	d.engine.report(d.ctx, journal.Event{
		Kind: journal.EventAttempt,
		ID:   d.owner.ID, Name: d.plan.Name, Step: e.task.step.Name, Undo: e.task.undo, Attempt: l.attempts,
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
