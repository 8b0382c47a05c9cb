package saga

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// settle writes what is due before the decision is carried out: outcomes, and
// in the same write where the saga goes because of them.
func (d *drive) settle(decision decision) error {
	opens := d.opensPivot(decision)
	sleeps := !opens && d.maySleep(decision)
	if !d.must && decision.status == 0 && !opens && !sleeps {
		return nil
	}
	g, now := d.progress, d.now()
	w := Write{Revision: d.revision + 1, Status: decision.status}
	w.Cause, w.StuckOn = decision.cause, decision.stuckOn
	from := g.status
	switch decision.status {
	case Compensating:
		w.Entries = g.turn(now)
	case Completed:
		w.Result, w.Keep = d.result(), d.engine.cfg.Keep
	case Compensated:
		w.Keep = d.engine.cfg.Keep
	default:
	}
	if sleeps {
		g.tell(now)
		w.WakeAt = decision.wake
	}
	w.Entries = d.unwritten(w.Entries)
	if g.renewed && decision.status != Completed { // whose deadline is of no use to anybody
		w.DeadlineAt, d.deadline = g.deadline, g.deadline
	}
	if opens {
		w.Entries = append(w.Entries, Entry{Step: d.plan.pivot.name, Outcome: retry.Unknown, Pending: true, At: now})
	}
	if err := d.append(w); err != nil {
		return err
	}
	d.must, g.renewed = false, false
	if opens {
		g.forward[d.plan.pivot.index].opened = true
	}
	if decision.status != 0 {
		d.moved(from, w)
	}
	if sleeps {
		d.engine.wakes.add(time.Now().Add(decision.wake.Sub(d.now())))
		return errAsleep
	}
	return nil
}

// errAsleep ends a drive whose saga has nothing to do for longer than a lease. The journal
// has all of it, and wakes it: any process may claim it then.
var errAsleep = errors.New("saga: asleep")

// maySleep reports whether the saga can be given up until decision.wake: no call runs or is
// to begin, and what the owner knows can be written down. A shorter wait is not worth the
// writes.
func (d *drive) maySleep(decision decision) bool {
	return decision.status == 0 && d.progress.running == 0 && len(decision.start) == 0 &&
		!decision.wake.IsZero() && decision.wake.Sub(d.now()) > d.life.lease && !d.closing() && d.progress.tellable()
}

// opensPivot reports whether the decision begins the pivot, and the journal does not say
// so yet. A process that is being closed begins nothing, and nor does one that cannot
// read what it needs.
func (d *drive) opensPivot(decision decision) bool {
	if decision.status != 0 || d.closing() || !d.life.valid() || d.life.late() {
		return false
	}
	for _, t := range decision.start {
		if d.unopened(t) {
			return d.legible() == nil
		}
	}
	return false
}

// unopened reports whether t is the call of the pivot, and the journal does not say that
// it begins.
func (d *drive) unopened(t task) bool {
	return t.step == d.plan.pivot && !t.undo && !d.progress.leg(t).opened
}

// unwritten appends the entries for what is dirty, in the order of the plan.
func (d *drive) unwritten(entries []Entry) []Entry {
	for _, s := range d.plan.steps {
		for _, t := range [...]task{{s, false}, {s, true}} {
			if d.progress.leg(t).dirty {
				entries = append(entries, d.progress.write(t))
			}
		}
	}
	return entries
}

// append writes w, however long that takes, as long as the saga is ours: what
// calls returned is here and nowhere else. A write under way is not left when that
// is over: nobody waits for the drive then, the fence keeps it from doing harm, and
// a journal can do better by a caller that stays.
func (d *drive) append(w Write) error {
	ctx := context.WithoutCancel(d.life.ctx)
	for n := 0; ; n++ {
		sent := time.Now()
		err := d.engine.journal.Append(ctx, d.owner, w)
		switch {
		case err == nil:
			d.revision, d.confirmed = w.Revision, sent
			return nil
		case errors.Is(err, ErrLeaseLost):
			d.engine.tell(EngineEvent{Kind: EngineWriteRefused, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
			return err
		case d.life.ctx.Err() != nil:
			return context.Cause(d.life.ctx)
		}
		d.engine.tell(EngineEvent{Kind: EngineJournalError, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
		if !pause(d.life.ctx, min(50*time.Millisecond<<min(n, 10), time.Second)) {
			return context.Cause(d.life.ctx)
		}
	}
}

// moved remembers where the saga went, and tells of it.
func (d *drive) moved(from Status, w Write) {
	now := d.now()
	failure := w.StuckOn
	if w.Cause != nil {
		failure, d.cause = w.Cause, w.Cause
	}
	d.engine.observer.SagaMoved(d.ctx, MoveEvent{
		ID: d.owner.ID, Name: d.plan.name, From: from, To: w.Status, Failure: failure, Age: now.Sub(d.record.CreatedAt),
	})
	if w.Status == Compensating {
		return
	}
	d.final = d.record
	r := &d.final
	r.Status, r.Revision, r.Entries = w.Status, w.Revision, d.entries()
	r.Cause, r.StuckOn, r.Result = d.cause, w.StuckOn, w.Result
	r.Now, r.FinishedAt = now, now
	if d.progress != nil {
		r.Turned, r.DeadlineAt = d.progress.turned, d.deadline
	}
	if w.Status == Stuck && d.engine.cfg.OnStuck != nil {
		d.engine.work.Go(d.callHook)
	}
}

func (d *drive) callHook() {
	ctx := context.WithoutCancel(d.ctx)
	err := guarded(func() error {
		d.engine.cfg.OnStuck(ctx, d.final)
		return nil
	})
	if err != nil {
		d.engine.tell(EngineEvent{Kind: EnginePanic, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
	}
}

// entries returns all that is known, as a journal would have it.
func (d *drive) entries() []Entry {
	if d.progress == nil {
		return d.record.Entries
	}
	entries := make([]Entry, 0, len(d.plan.steps))
	for _, s := range d.plan.steps {
		for _, t := range [...]task{{s, false}, {s, true}} {
			if d.progress.leg(t).known {
				entries = append(entries, d.progress.entry(t))
			}
		}
	}
	return entries
}

// quarantine makes a saga stuck that cannot be driven at all.
func (d *drive) quarantine(reason Reason, cause error) error {
	w := Write{
		Revision: d.revision + 1, Status: Stuck,
		StuckOn: &Failure{Reason: reason, Detail: detail(cause)},
	}
	from := d.record.Status
	if d.progress != nil {
		from = d.progress.status
	}
	if err := d.append(w); err != nil {
		return err
	}
	d.moved(from, w)
	return nil
}

// result returns what the saga results in; nil if that cannot be had.
func (d *drive) result() []byte {
	result := d.plan.result
	if result == nil {
		return []byte("{}")
	}
	for _, i := range result.needs {
		if d.progress.forward[i].result == nil {
			return nil // it would be made from a zero value
		}
	}
	var data []byte
	err := guarded(func() error {
		f, err := d.progress.facts(d.record.Input, result)
		if err != nil {
			return err
		}
		data, err = contract.Encode(result.eval(f))
		return err
	})
	if err == nil && len(data) > MaxResultBytes {
		err = fmt.Errorf("%w: %d bytes, at most %d", ErrNoResult, len(data), MaxResultBytes)
	}
	if err != nil {
		kind := EngineNoResult
		var panicked *PanicError
		if errors.As(err, &panicked) {
			kind = EnginePanic
		}
		d.engine.tell(EngineEvent{Kind: kind, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
		return nil
	}
	return data
}
