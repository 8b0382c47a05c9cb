package saga

import (
	"context"
	"slices"
	"time"
)

// RetryNow has a saga that waits to try calls again try them at once: the callee is back, and
// nobody wants to wait for the end of a backoff. It works wherever the saga waits: in the memory
// of an engine, in whatever process, which notices within its [Config].Poll; and in the journal,
// where the next claim takes it. The saga keeps its owner, its tries and its times. Calls that
// are running go on.
//
// It is an [ErrConflict] if the saga is not running or compensating, or if no call of it
// waits. A wait of at most a second is in no journal, and counts as none. RetryNow needs no
// definition. Its other errors are those of [Operator.Retry]. The record that it returns has no
// pending wait.
func (o *operator) RetryNow(ctx context.Context, id ID, by Audit) (Record, error) {
	by.Verb = VerbRetryNow
	return o.operate(ctx, id, by, func(r Record) (Change, error) {
		if !r.Status.Driven() {
			return Change{}, wrong(r, "only a running or compensating saga waits by itself")
		}
		c := Change{Wake: true}
		for _, entry := range r.Entries {
			if entry.Pending && entry.RetryAt.After(r.Now) {
				entry.RetryAt = time.Time{}
				c.Entries = append(c.Entries, entry)
			}
		}
		if len(c.Entries) == 0 && !r.WakeAt.After(r.Now) {
			return Change{}, wrong(r, "no call of it waits")
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

// heed wakes the sagas that this engine drives and that somebody wants tried at once, until
// ctx ends. It reads the audit log, where the verb is, and only while a saga waits for a later try.
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
				e.tell(EngineEvent{Kind: EngineJournalError, Engine: e.current().id, Err: err})
			}
			continue
		}
		for _, line := range slices.Backward(log) { // the oldest first
			if d := e.driven(line.ID); d != nil && line.Verb == VerbRetryNow {
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
	for _, d := range e.drives {
		if from := d.wokenAt(); d.waits.Load() && (!waits || from.Before(since)) {
			since, waits = from, true
		}
	}
	return since, waits
}

// linesSince returns the lines of the audit log that came after that time, the youngest first,
// and maybe older ones.
func (e *Engine) linesSince(ctx context.Context, since time.Time) ([]AuditEntry, error) {
	for limit := heedLines; ; limit *= 10 {
		ctx, cancel := context.WithTimeout(ctx, e.cfg.Lease/3)
		log, err := e.journal.AuditLog(ctx, ID{}, limit)
		cancel()
		if err != nil || len(log) < limit || limit >= heedLinesMax || !log[limit-1].At.After(since) {
			return log, err
		}
	}
}

// backOff says whether a call of the saga waits to be tried again.
func (d *drive) backOff() {
	waits := d.progress.backsOff(d.now())
	if d.waits.Swap(waits) == waits || !waits {
		return
	}
	select {
	case d.engine.backing <- struct{}{}:
	default:
	}
}

// wokenAt returns up to when, by the journal's clock, the drive has heeded verbs.
func (d *drive) wokenAt() time.Time {
	if at := d.woken.Load(); at != nil {
		return *at
	}
	return d.record.Now
}

// wakeBy has the drive try at once what waits, if it has not done so by a line of the audit log
// from then or later.
func (d *drive) wakeBy(at time.Time) {
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
	for i := range g.plan.steps {
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
	for i := range g.plan.steps {
		for _, l := range [...]*leg{&g.forward[i], &g.undo[i]} {
			if !l.final {
				l.retryAt = time.Time{}
			}
		}
	}
}
