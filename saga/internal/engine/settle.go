package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// settle makes the due write before the decision is carried out. The write has the outcomes, and
// the new status that follows from them.
func (d *execution) settle(decision decision) error {
	opens := d.opensPivot(decision)
	sleeps := !opens && d.maySleep(decision)
	if !d.must && decision.status == 0 && !opens && !sleeps {
		return nil
	}
	g, now := d.progress, d.now()
	w := journal.Write{Revision: d.revision + 1, Status: decision.status}
	w.Cause, w.StuckOn = decision.cause, decision.stuckOn
	from := g.status
	switch decision.status {
	case journal.Compensating:
		w.Entries = g.fail(now)
	case journal.Completed:
		w.Result, w.Keep = d.result(), d.engine.cfg.Keep
	case journal.Compensated:
		w.Keep = d.engine.cfg.Keep
	default:
	}
	if sleeps {
		g.tell(now)
		w.WakeAt = decision.wake
	}
	w.Entries = d.unwritten(w.Entries)
	if g.renewed && decision.status != journal.Completed { // a completed saga needs no deadline
		w.DeadlineAt, d.deadline = g.deadline, g.deadline
	}
	if opens {
		w.Entries = append(w.Entries, journal.Entry{Step: d.plan.pivot.Name, Outcome: retry.Unknown, Pending: true, At: now})
	}
	if err := d.append(w); err != nil {
		return err
	}
	d.must, g.renewed = false, false
	if opens {
		g.forward[d.plan.pivot.Index].opened = true
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

// errAsleep ends an execution whose saga is idle for longer than a lease. The journal has the
// complete saga, and wakes it: then any process may claim it.
var errAsleep = errors.New("saga: asleep")

// maySleep reports whether the saga can be given up until decision.wake: no call runs or is
// to begin, and what the owner knows can be written down. A shorter wait is not worth the
// writes.
func (d *execution) maySleep(decision decision) bool {
	return decision.status == 0 && d.progress.running == 0 && len(decision.start) == 0 &&
		!decision.wake.IsZero() && decision.wake.Sub(d.now()) > d.lease.length && !d.closing() && d.progress.tellable()
}

// opensPivot reports whether the decision begins the pivot, and the journal does not say
// so yet. A process that is being closed begins nothing, and nor does one that cannot
// read what it needs.
func (d *execution) opensPivot(decision decision) bool {
	if decision.status != 0 || d.closing() || !d.lease.valid() || d.lease.late() {
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
func (d *execution) unopened(t task) bool {
	return t.step == d.plan.pivot && !t.undo && !d.progress.leg(t).opened
}

// unwritten appends the entries of the dirty legs, in the order of the plan.
func (d *execution) unwritten(entries []journal.Entry) []journal.Entry {
	for _, s := range d.plan.Steps {
		for _, t := range [...]task{{s, false}, {s, true}} {
			if d.progress.leg(t).dirty {
				entries = append(entries, d.progress.write(t))
			}
		}
	}
	return entries
}

// append writes w, however long that takes, while this execution owns the saga: the results of
// the calls are only in this process. It does not leave a running write when the ownership ends.
// No caller waits for the execution then, the fence makes the write harmless, and a journal is
// faster for a caller that stays.
func (d *execution) append(w journal.Write) error {
	ctx := context.WithoutCancel(d.lease.ctx)
	for n := 0; ; n++ {
		sent := time.Now()
		err := d.engine.journal.Append(ctx, d.owner, w)
		switch {
		case err == nil:
			d.revision, d.confirmed = w.Revision, sent
			return nil
		case errors.Is(err, journal.ErrLeaseLost):
			d.engine.tell(journal.Event{Kind: journal.EventWriteRefused, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
			return err
		case d.lease.ctx.Err() != nil:
			return context.Cause(d.lease.ctx)
		}
		d.engine.tell(journal.Event{Kind: journal.EventJournalError, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
		if !pause(d.lease.ctx, min(50*time.Millisecond<<min(n, 10), time.Second)) {
			return context.Cause(d.lease.ctx)
		}
	}
}

// moved remembers the saga's new status, and reports it.
func (d *execution) moved(from journal.Status, w journal.Write) {
	now := d.now()
	failure := w.StuckOn
	if w.Cause != nil {
		failure, d.cause = w.Cause, w.Cause
	}
	d.engine.report(d.ctx, journal.Event{
		Kind: journal.EventMoved,
		ID:   d.owner.ID, Name: d.plan.Name, From: from, To: w.Status, Failure: failure, Age: now.Sub(d.record.CreatedAt),
	})
	if w.Status == journal.Compensating {
		return
	}
	d.final = d.record
	r := &d.final
	r.Status, r.Revision, r.Entries = w.Status, w.Revision, d.entries()
	r.Cause, r.StuckOn, r.Result = d.cause, w.StuckOn, w.Result
	r.Now, r.FinishedAt = now, now
	if d.progress != nil {
		r.FailedAt, r.DeadlineAt = d.progress.failedAt, d.deadline
	}
	if w.Status == journal.Stuck && d.engine.cfg.OnStuck != nil {
		d.engine.work.Go(d.callHook)
	}
}

func (d *execution) callHook() {
	ctx := context.WithoutCancel(d.ctx)
	err := Guarded(func() error {
		d.engine.cfg.OnStuck(ctx, d.final)
		return nil
	})
	if err != nil {
		d.engine.tell(journal.Event{Kind: journal.EventPanic, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
	}
}

// entries returns all known entries, as a journal would store them.
func (d *execution) entries() []journal.Entry {
	if d.progress == nil {
		return d.record.Entries
	}
	entries := make([]journal.Entry, 0, len(d.plan.Steps))
	for _, s := range d.plan.Steps {
		for _, t := range [...]task{{s, false}, {s, true}} {
			if d.progress.leg(t).known {
				entries = append(entries, d.progress.entry(t))
			}
		}
	}
	return entries
}

// quarantine makes a saga stuck that cannot be executed at all.
func (d *execution) quarantine(reason journal.Reason, cause error) error {
	w := journal.Write{
		Revision: d.revision + 1, Status: journal.Stuck,
		StuckOn: &journal.Failure{Reason: reason, Detail: detail(cause)},
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

// result returns the result of the saga; nil if it cannot be made.
func (d *execution) result() []byte {
	result := d.plan.Result
	if result == nil {
		return []byte("{}")
	}
	for _, i := range result.Needs {
		if d.progress.forward[i].result == nil {
			return nil // it would be made from a zero value
		}
	}
	var data []byte
	err := Guarded(func() error {
		f, err := d.progress.facts(d.record.Input, result)
		if err != nil {
			return err
		}
		data, err = contract.Encode(result.Eval(f))
		return err
	})
	if err == nil && len(data) > journal.MaxResultBytes {
		err = fmt.Errorf("%w: %d bytes, at most %d", ErrNoResult, len(data), journal.MaxResultBytes)
	}
	if err != nil {
		kind := journal.EventNoResult
		var panicked *sdk.PanicError
		if errors.As(err, &panicked) {
			kind = journal.EventPanic
		}
		d.engine.tell(journal.Event{Kind: kind, Engine: d.owner.Engine, ID: d.owner.ID, Err: err})
		return nil
	}
	return data
}
