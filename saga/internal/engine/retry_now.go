package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// RetryNow makes a saga retry its waiting calls at once.
func (o *Operator) RetryNow(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	by.Verb = journal.VerbRetryNow
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		if !r.Status.Active() {
			return journal.Change{}, wrong(r, "only a running or compensating saga waits by itself")
		}
		c := journal.Change{Wake: true}
		for _, entry := range r.Entries {
			if entry.Pending && entry.RetryAt.After(r.Now) {
				entry.RetryAt = time.Time{}
				c.Entries = append(c.Entries, entry)
			}
		}
		if len(c.Entries) == 0 && !r.WakeAt.After(r.Now) {
			return journal.Change{}, wrong(r, "no call of it waits")
		}
		return c, nil
	})
}

const (
	// heedLines is how many lines of the audit log an engine reads at first. Where more
	// may be new it reads more, up to heedLinesMax.
	heedLines    = 100
	heedLinesMax = 100 * heedLines
	// heedSlack is how much later than others a line may become visible: its transaction
	// may have taken longer.
	heedSlack = 5 * time.Second
)

// heed wakes the sagas of this engine that a RetryNow names, until ctx ends. It finds the verb in
// the audit log, and reads the log only while a saga waits for a later attempt.
func (e *Engine) heed(ctx context.Context) {
	var read time.Time // up to when, by the journal's clock, every line was read
	for {
		since, waits := e.waitingSince()
		if !e.pauseUntilHeeded(ctx, waits) {
			return
		}
		if !waits {
			continue // some saga waits now
		}
		log, err := e.linesSince(ctx, later(since, read))
		if err != nil {
			if ctx.Err() == nil {
				e.tell(Event{Kind: EventJournalError, Engine: e.current().id, Err: err})
			}
			continue
		}
		for _, line := range slices.Backward(log) { // the oldest first
			if d := e.executing(line.ID); d != nil && line.Verb == journal.VerbRetryNow {
				d.wakeBy(line.At)
			}
		}
		if len(log) > 0 {
			read = log[0].At.Add(-heedSlack)
		}
	}
}

// pauseUntilHeeded waits for the next look at the audit log, or until a saga waits if none does;
// false if ctx ended.
func (e *Engine) pauseUntilHeeded(ctx context.Context, waits bool) bool {
	var next <-chan time.Time
	begins := e.backing
	if waits {
		timer := time.NewTimer(e.cfg.Poll)
		defer timer.Stop()
		next, begins = timer.C, nil
	}
	select {
	case <-next:
	case <-begins:
	case <-e.closing:
		return false
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil
}

// waitingSince returns since when, by the journal's clock, lines of the audit log may be about
// a saga that waits here; false if no saga does.
func (e *Engine) waitingSince() (since time.Time, waits bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.executions {
		if from := d.wokenAt(); d.waits.Load() && (!waits || from.Before(since)) {
			since, waits = from, true
		}
	}
	return since, waits
}

// linesSince returns the lines of the audit log that came after that time, the youngest first,
// and maybe older ones.
func (e *Engine) linesSince(ctx context.Context, since time.Time) ([]journal.AuditEntry, error) {
	for limit := heedLines; ; limit *= 10 {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
		log, err := e.journal.AuditLog(ctx, journal.ID{}, limit)
		cancel()
		if err != nil || len(log) < limit || limit >= heedLinesMax || !log[limit-1].At.After(since) {
			return log, err
		}
	}
}

// backOff says whether a call of the saga waits to be tried again.
func (d *execution) backOff() {
	waits := d.progress.backsOff(d.now())
	if d.waits.Swap(waits) == waits || !waits {
		return
	}
	select {
	case d.engine.backing <- struct{}{}:
	default:
	}
}

// wokenAt returns up to when, by the journal's clock, the execution has heeded verbs.
func (d *execution) wokenAt() time.Time {
	if at := d.woken.Load(); at != nil {
		return *at
	}
	return d.record.Now
}

// wakeBy makes the execution retry its waiting calls at once, unless it has already done so by a
// line of the audit log from that time or later.
func (d *execution) wakeBy(at time.Time) {
	if !at.After(d.wokenAt()) {
		return
	}
	d.woken.Store(&at)
	select {
	case d.hurry <- struct{}{}:
	default:
	}
}

// backsOff reports whether a call waits to be tried again.
func (g *progress) backsOff(now time.Time) bool {
	for i := range g.plan.Steps {
		for _, l := range [...]*leg{&g.forward[i], &g.undo[i]} {
			if !l.final && now.Before(l.retryAt) {
				return true
			}
		}
	}
	return false
}

// hurry ends the waits of calls that are to be tried again.
func (g *progress) hurry() {
	for i := range g.plan.Steps {
		for _, l := range [...]*leg{&g.forward[i], &g.undo[i]} {
			if !l.final {
				l.retryAt = time.Time{}
			}
		}
	}
}
