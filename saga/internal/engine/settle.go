package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// settle makes the due write before the decision is carried out. The write has the outcomes, and
// the new status that follows from them.
func (x *execution) settle(d decision) error {
	opened := x.toOpen(d)
	sleeps := len(opened) == 0 && x.maySleep(d)
	if !x.must && d.status == 0 && len(opened) == 0 && !sleeps {
		return nil
	}
	p, now := x.progress, x.now()
	w := journal.Write{Revision: x.revision + 1, Status: d.status}
	w.Cause, w.StuckOn = d.cause, d.stuckOn
	from := p.status
	switch d.status {
	case journal.Compensating:
		w.Entries = p.fail(now)
	case journal.Completed:
		w.Result, w.Keep = x.result(), x.engine.cfg.Keep
	case journal.Compensated:
		w.Keep = x.engine.cfg.Keep
	case journal.Stuck:
		if p.canTell() { // so that the next owner, after a person's Retry, knows what was never sent
			p.tell(now)
			w.WakeAt = now
		}
	default:
	}
	if sleeps {
		p.tell(now)
		w.WakeAt = d.wake
	}
	w.Entries = x.appendDue(w.Entries)
	if p.renewed && d.status != journal.Completed { // a completed saga needs no deadline
		w.DeadlineAt, x.deadline = p.deadline, p.deadline
	}
	for _, t := range opened {
		w.Entries = append(w.Entries, journal.Entry{Step: t.step.Name, Outcome: retry.Unknown, Pending: true, At: now})
	}
	if err := x.append(w); err != nil {
		return err
	}
	x.must, p.renewed = false, false
	for _, t := range opened {
		p.leg(t).open()
	}
	if d.status != 0 {
		x.reportMove(from, w)
	}
	if sleeps {
		x.engine.wakes.add(time.Now().Add(d.wake.Sub(x.now())))
		if x.ear.hasNews() {
			x.engine.look()
		}
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
func (x *execution) maySleep(d decision) bool {
	return d.status == 0 && x.progress.running == 0 && len(d.start) == 0 &&
		!d.wake.IsZero() && d.wake.Sub(x.now()) > x.lease.length && !x.isClosing() && x.progress.canTell()
}

// toOpen returns the calls of the decision that the journal must have before they begin, and does not have yet. A
// process that is being closed begins nothing, and nor does one that cannot read what it needs.
func (x *execution) toOpen(d decision) (opened []task) {
	if d.status != 0 || x.isClosing() || !x.lease.isValid() || x.lease.isLate() {
		return nil
	}
	for _, t := range d.start {
		if x.needsOpening(t) {
			opened = append(opened, t)
		}
	}
	if opened != nil && x.checkReadable() != nil {
		return nil
	}
	return opened
}

// needsOpening reports whether the journal must have t before it begins, and does not have it yet.
func (x *execution) needsOpening(t task) bool {
	return t.step.Opens() && !t.undo && !x.progress.leg(t).isOpened()
}

// appendDue appends the entries that are due, in the order of the plan.
func (x *execution) appendDue(entries []journal.Entry) []journal.Entry {
	for _, s := range x.progress.plan.Steps {
		for _, t := range [...]task{{s, false}, {s, true}} {
			if x.progress.leg(t).entry == entryDue {
				entries = append(entries, x.progress.write(t))
			}
		}
	}
	return entries
}

// append writes w, however long that takes, while this execution owns the saga: the results of
// the calls are only in this process. It does not leave a running write when the ownership ends.
// No caller waits for the execution then, the fence makes the write harmless, and a journal is
// faster for a caller that stays.
func (x *execution) append(w journal.Write) error {
	ctx := context.WithoutCancel(x.lease.ctx)
	for n := 0; ; n++ {
		sent := time.Now()
		err := x.engine.journal.Append(ctx, x.owner, w)
		switch {
		case err == nil:
			x.revision, x.confirmed = w.Revision, sent
			return nil
		case errors.Is(err, journal.ErrLeaseLost):
			x.engine.tell(journal.Event{Kind: journal.EventWriteRefused, Engine: x.owner.Engine, ID: x.owner.ID, Err: err})
			return err
		case x.lease.ctx.Err() != nil:
			return context.Cause(x.lease.ctx)
		}
		x.engine.tell(journal.Event{Kind: journal.EventJournalError, Engine: x.owner.Engine, ID: x.owner.ID, Err: err})
		if !pause(x.lease.ctx, min(50*time.Millisecond<<min(n, 10), time.Second)) {
			return context.Cause(x.lease.ctx)
		}
	}
}

// reportMove remembers the saga's new status, and reports it.
func (x *execution) reportMove(from journal.Status, w journal.Write) {
	now := x.now()
	failure := w.StuckOn
	if w.Cause != nil {
		failure, x.cause = w.Cause, w.Cause
	}
	x.engine.report(x.ctx, journal.Event{
		Kind: journal.EventMoved,
		ID:   x.owner.ID, Name: x.plan.Name, From: from, To: w.Status, Failure: failure, Age: now.Sub(x.record.CreatedAt),
	})
	if w.Status == journal.Compensating {
		return
	}
	x.final = x.record
	r := &x.final
	r.Status, r.Revision, r.Entries = w.Status, w.Revision, x.entries()
	r.Cause, r.StuckOn, r.Result = x.cause, w.StuckOn, w.Result
	r.Now, r.FinishedAt = now, now
	if x.progress != nil {
		r.FailedAt, r.DeadlineAt = x.progress.failedAt, x.deadline
	}
	if w.Status == journal.Stuck && x.engine.cfg.OnStuck != nil {
		x.engine.work.Go(x.callHook)
	}
}

func (x *execution) callHook() {
	ctx := context.WithoutCancel(x.ctx)
	err := graph.Guarded(func() error {
		x.engine.cfg.OnStuck(ctx, x.final)
		return nil
	})
	if err != nil {
		x.engine.tell(journal.Event{Kind: journal.EventPanic, Engine: x.owner.Engine, ID: x.owner.ID, Err: err})
	}
}

// entries returns all known entries, as a journal would store them.
func (x *execution) entries() []journal.Entry {
	if x.progress == nil {
		return x.record.Entries
	}
	steps := x.progress.plan.Steps
	entries := make([]journal.Entry, 0, len(steps))
	for _, s := range steps {
		for _, t := range [...]task{{s, false}, {s, true}} {
			if x.progress.leg(t).isKnown() {
				entries = append(entries, x.progress.entry(t))
			}
		}
	}
	return entries
}

// quarantine makes a saga stuck that cannot be executed at all.
func (x *execution) quarantine(reason journal.Reason, cause error) error {
	w := journal.Write{
		Revision: x.revision + 1, Status: journal.Stuck,
		StuckOn: &journal.Failure{Reason: reason, Detail: detail(cause)},
	}
	from := x.record.Status
	if x.progress != nil {
		from = x.progress.status
	}
	if err := x.append(w); err != nil {
		return err
	}
	x.reportMove(from, w)
	return nil
}

// result returns the result of the saga; nil if it cannot be made.
func (x *execution) result() []byte {
	result := x.plan.Result
	if result == nil {
		return []byte("{}")
	}
	for _, i := range result.Needs {
		if x.progress.lacks(i) {
			return nil // it would be made from a zero value
		}
	}
	var data []byte
	err := graph.Guarded(func() error {
		f, err := x.progress.facts(x.record.Input, result)
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
		x.engine.tell(journal.Event{Kind: kind, Engine: x.owner.Engine, ID: x.owner.ID, Err: err})
		return nil
	}
	return data
}
