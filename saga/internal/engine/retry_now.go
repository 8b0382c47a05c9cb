package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// RetryNow makes a saga retry its waiting calls at once.
func (o *Operator) RetryNow(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	by.Verb = journal.VerbRetryNow
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		if !r.Status.Active() {
			return journal.Change{}, conflictError(r, "only a running or compensating saga waits by itself")
		}
		c := journal.Change{Wake: true}
		for _, entry := range r.Entries {
			if entry.Pending && entry.RetryAt.After(r.Now) {
				entry.RetryAt = time.Time{}
				c.Entries = append(c.Entries, entry)
			}
		}
		if len(c.Entries) == 0 && !r.WakeAt.After(r.Now) {
			return journal.Change{}, conflictError(r, "no call of it waits")
		}
		return c, nil
	})
}

// hearVerbs reads the saga again, once a lease, while one of its calls waits for longer than that
// in memory: a RetryNow deletes the wait from the saga's record. Else it has the decision wake for
// the next look. read says that the decision may be an old one.
func (x *execution) hearVerbs(d *decision) (read bool, err error) {
	now := x.now()
	if !x.progress.waitsBeyond(now.Add(x.lease.length)) {
		return false, nil
	}
	if next := x.looked.Add(x.lease.length); now.Before(next) {
		d.sooner(next, now)
		return false, nil
	}
	x.looked = now // also if the journal does not answer
	err = x.readAgain()
	if errors.Is(err, journal.ErrLeaseLost) || x.lease.ctx.Err() != nil {
		return false, err
	}
	return true, nil
}

// waitsBeyond reports whether a call waits until after that time to be tried again.
func (p *progress) waitsBeyond(t time.Time) bool {
	for i := range p.plan.Steps {
		for _, l := range [...]*leg{&p.forward[i], &p.undo[i]} {
			if !l.isEnded() && !l.isRunning() && l.retryAt.After(t) {
				return true
			}
		}
	}
	return false
}

// endWaits ends the waits that the journal's entries no longer have. A wait that the journal does
// not have yet goes on.
func (p *progress) endWaits(entries []journal.Entry) {
	for _, entry := range entries {
		s := p.plan.find(entry.Step)
		if s == nil || !entry.Pending || !entry.RetryAt.IsZero() {
			continue
		}
		if l := p.leg(task{s, entry.Undo}); !l.isEnded() && !l.isRunning() && l.entry == entryWritten {
			l.retryAt = time.Time{}
		}
	}
}
