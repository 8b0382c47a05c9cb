package saga

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// A drive is one owner's work on one saga. Its goroutine decides, writes, and
// begins calls. It makes a call that is the only one by itself; others run in
// goroutines of their own. All report to it in the same way.
type drive struct {
	engine *Engine
	life   *life
	plan   *plan
	owner  Owner
	record Record // as it was taken; it does not change
	from   origin
	// readable is the direction for which what others wrote was found readable; 0: none.
	readable Status
	ctx      context.Context // of its calls
	// parent is the parent key of its calls. parentErr says why it has none, as a
	// damaged record has.
	parent    childkey.Key
	parentErr error

	seen     time.Time // when, by this process's clock, the record was read
	revision int64
	progress *progress
	cause    *Failure  // why the saga was turned
	deadline time.Time // that the journal has, or gets with the write under way

	endings chan *ending  // of calls
	alarm   *time.Timer   // of await; nil until it is needed
	hurry   chan struct{} // has await end what it waits for; see wakeBy
	waits   atomic.Bool   // a call waits to be tried again
	woken   atomic.Pointer[time.Time]
	over    chan struct{} // closed when the drive has ended, and is the engine's no more

	before  *drive // of the saga in this process; nil: none, or of no use any more
	gate    sync.Mutex
	evicted bool          // no further call may begin
	gone    chan struct{} // closed by evict
	heir    chan struct{} // closed when another drive of the saga is in the place of this one

	confirmed time.Time // when the journal was asked last that said that the saga is the owner's
	announced bool      // see announce
	must      bool      // what is dirty must be written before anything else is begun

	// Set before over is closed.
	final Record // where the saga ended, or got stuck
	err   error  // why the drive ended before the saga; nil: it did not
}

// An origin is where a drive has its saga from.
type origin uint8

const (
	startedHere origin = iota // this process has just stored it
	neverDriven               // somebody else has, and no engine had it: nothing was sent
	wokenUp                   // its last owner gave it up, and all that was sent is in its entries
	takenOver                 // anything may have been sent
)

// An ending is how a try of a task went.
type ending struct {
	task    task
	verdict verdict
	err     error
	elapsed time.Duration
}

func newDrive(e *Engine, l *life, p *plan, r *Record, from origin) *drive {
	parent, err := r.parentKey()
	d := &drive{
		engine: e, life: l, plan: p, record: *r, from: from,
		parent: parent, parentErr: err, ctx: childkey.NewContext(l.ctx, parent),
		owner: Owner{ID: r.ID, Engine: r.Engine, Fence: r.Fence},
		seen:  time.Now(), revision: r.Revision, deadline: r.DeadlineAt,
		hurry: make(chan struct{}, 1), endings: make(chan *ending, 2*len(p.steps)), over: make(chan struct{}),
		gone: make(chan struct{}), heir: make(chan struct{}),
	}
	d.confirmed = d.seen
	return d
}

// now is the journal's clock, as far as this process can tell.
func (d *drive) now() time.Time { return d.record.Now.Add(time.Since(d.seen)) }

func (d *drive) isOver() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}

// run drives the saga until it is final or stuck, or the drive is over.
func (d *drive) run() {
	d.announce()
	err := guarded(func() error { return d.drive() })
	var panicked *PanicError
	if errors.As(err, &panicked) {
		d.engine.tell(EngineEvent{Kind: EnginePanic, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
		err = d.quarantine(ReasonPanic, err)
	}
	if errors.Is(err, ErrLeaseLost) {
		d.linger()
	}
	d.err = err
}

// announce tells, once, of a saga that no engine had before.
func (d *drive) announce() {
	if d.owner.Fence > 1 || d.announced {
		return
	}
	d.announced = true
	d.engine.observer.SagaMoved(d.ctx, MoveEvent{
		ID: d.owner.ID, Name: d.plan.name, To: Running, Age: d.now().Sub(d.record.CreatedAt),
	})
}

func (d *drive) drive() error {
	if d.record.Deaths >= d.engine.cfg.MaxDeaths {
		return d.quarantine(ReasonPoisoned, fmt.Errorf("saga: %d engines died under it", d.record.Deaths))
	}
	if d.parentErr != nil {
		return d.quarantine(ReasonCorrupt, d.parentErr)
	}
	if d.progress == nil {
		progress, err := d.plan.load(d.record, d.from != takenOver)
		if err != nil {
			return d.setAside(err)
		}
		d.progress, d.cause = progress, d.record.Cause
		if err := d.inherit(); err != nil {
			return err
		}
		if err := d.outlast(); err != nil {
			return err
		}
	}
	if err := d.unknown(); err != nil {
		return d.setAside(err)
	}
	for {
		if d.isGone() {
			return ErrLeaseLost
		}
		decision := d.progress.decide(d.now())
		if decision.status == Completed { // maybe without a call, by a person's word
			if err := d.legible(); err != nil {
				return d.setAside(err)
			}
		}
		if err := d.settle(decision); err != nil {
			return err
		}
		if decision.status == Compensating {
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
		if err := d.await(decision.wake); err != nil {
			return err
		}
	}
}

// legible checks, once per direction, that what others wrote can be read. What comes
// later this process encodes itself.
func (d *drive) legible() error {
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

func (d *drive) closing() bool { return d.engine.isClosing() }

// await waits for the end of a call, or until the time wake; zero: for ever.
func (d *drive) await(wake time.Time) error {
	var timeout <-chan time.Time
	if !wake.IsZero() {
		timeout = d.ringAt(wake)
		defer d.alarm.Stop()
	}
	closing := d.engine.closing
	if d.closing() {
		closing = nil // seen already
	}
	d.backOff()
	select {
	case e := <-d.endings:
		d.book(e)
	case <-d.hurry:
		d.progress.hurry()
	case <-timeout:
	case <-closing:
	case <-d.gone:
		return ErrLeaseLost
	case <-d.life.ctx.Done():
		return context.Cause(d.life.ctx)
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

// ringAt sets the drive's alarm. A saga waits once for each of its steps, mostly
// for its own deadline, so that it keeps the timer.
func (d *drive) ringAt(t time.Time) <-chan time.Time {
	left := t.Sub(d.now())
	if d.alarm == nil {
		d.alarm = time.NewTimer(left)
	} else {
		d.alarm.Reset(left)
	}
	return d.alarm.C
}

// book takes in how a call ended.
func (d *drive) book(e *ending) {
	g, now := d.progress, d.now()
	l := g.leg(e.task)
	wait := d.engine.cfg.wait(e.task.step.policy.Backoff, l.tries+1, e.verdict.after)
	open := !g.committed()
	g.end(e.task, e.verdict, now, wait)
	if open && g.status == Running && g.committed() {
		g.renew(now)
	}
	switch {
	case l.final:
		l.dirty = true
		// A saga that keeps its edges only writes more once it does not go well.
		d.must = d.must || !d.plan.edges || g.status != Running
		wait = 0
	case !e.task.undo && g.exhausted(e.task.step):
		l.dirty, d.must = true, true
		wait = 0
	case wait > time.Second:
		l.dirty, d.must = true, true
	}
	d.engine.observer.TryEnded(d.ctx, TryEvent{
		ID: d.owner.ID, Name: d.plan.name, Step: e.task.step.name, Undo: e.task.undo, Try: l.tries,
		Outcome: l.outcome, Status: e.verdict.status, Code: e.verdict.code,
		Elapsed: e.elapsed, Wait: wait, Err: e.err,
	})
}
