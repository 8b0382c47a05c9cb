package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// Run starts the saga of req, or finds it, and returns it once it is over or stuck. own says
// that this process ended it.
func (e *Engine) Run(ctx context.Context, req journal.StartRequest) (r journal.Record, own bool, err error) {
	defer e.lendPlace(ctx)()
	r, x, err := e.start(ctx, req, true)
	if err != nil {
		return journal.Record{}, false, err
	}
	return e.wait(ctx, r, x)
}

// lendPlace gives the place in MaxActive back of the saga whose function has that ctx, until the function calls
// takeBack: it waits for another saga, which may need the place.
func (e *Engine) lendPlace(ctx context.Context) (takeBack func()) {
	info, ok := CallInfoFrom(ctx)
	x := e.executing(info.ID)
	if !ok || x == nil {
		return func() {}
	}
	x.waiting.Add(1)
	e.look()
	return func() { x.waiting.Add(-1) }
}

// Start starts the saga of req, or finds it.
func (e *Engine) Start(ctx context.Context, req journal.StartRequest) (journal.Record, error) {
	r, _, err := e.start(ctx, req, false)
	return r, err
}

// Has reports whether the engine executes sagas of the plan.
func (e *Engine) Has(p *graph.Plan) bool { return e.plans[p.Record.Hash] == p }

// find returns the saga of req if it is there, for an engine that cannot start one
// because it has no lease.
func (e *Engine) find(ctx context.Context, req journal.StartRequest) (journal.Record, *execution, error) {
	r, err := e.journal.Read(ctx, req.ID)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return journal.Record{}, nil, notStartedError(fmt.Errorf("the engine has no lease now: %w", journal.ErrLeaseLost))
	case err != nil:
		return journal.Record{}, nil, notStartedError(fmt.Errorf("the engine has no lease now: %w: %w", journal.ErrLeaseLost, err))
	}
	return r, e.executing(r.ID), checkSameRequest(&r, &req)
}

func notStartedError(cause error) error {
	return fmt.Errorf("%w: %w", ErrNotStarted, errtext.Inner(cause))
}

// checkSameRequest returns errKeyReused unless r is what req asks for. Another version of the saga is the
// same saga. If the hash cannot be read it returns the reason: a codec's key may be missing in
// this process.
func checkSameRequest(r *journal.Record, req *journal.StartRequest) error {
	unread := r.InputHash == [32]byte{} || !errors.Is(r.Corrupt, journal.ErrNewer)
	if r.InputHash != req.InputHash && r.Corrupt != nil && unread {
		return r.Corrupt
	}
	if r.InputHash != req.InputHash {
		return fmt.Errorf("%w: saga %s %s", ErrKeyReused, r.Name, r.ID)
	}
	return nil
}

// wait returns the saga once it is over or stuck, and whether this process ended it. r is its
// last known record, and x its execution in this process, if any.
func (e *Engine) wait(ctx context.Context, r journal.Record, x *execution) (last journal.Record, own bool, err error) {
	pause, next, failures := time.Duration(0), shortPause(e.cfg.Poll), 0
	b := e.listen(r.ID) // all the time, so that no execution comes and goes unheard
	defer func() { e.stopListening(r.ID, b) }()
	for r.Status.Active() {
		if x != nil && x.owner.Fence >= r.Fence { // else x is an old execution that will soon notice
			select {
			case <-x.over:
			case <-x.gone:
			case <-x.lease.ctx.Done(): // a step's function may take its time to notice
			case <-ctx.Done():
			}
			if x.isOver() {
				if x.err == nil {
					return x.final, true, nil
				}
				pause = 0
			}
		}
		seen, err := e.readAfter(ctx, b, pause, r.ID)
		pause, next = next, min(2*next, e.cfg.Poll)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			return r, false, err
		case err != nil && failures == 2:
			return r, false, detachedError(err)
		case err != nil:
			failures++
		case seen == nil: // an execution began here, and may be over
			pause = 0
			e.stopListening(r.ID, b)
			b = e.listen(r.ID)
		default:
			r, failures = *seen, 0
			if asleep := asleepFor(seen); asleep > pause {
				pause, next = min(asleep, sleepPolls*e.cfg.Poll), shortPause(e.cfg.Poll)
			}
		}
		if err := e.mayWait(r); err != nil {
			return r, false, err
		}
		if ctx.Err() != nil && r.Status.Active() {
			return r, false, detachedError(endedAsleep(ctx, &r))
		}
		x = e.executing(r.ID)
	}
	return r, false, nil
}

// endedAsleep is Ended, for a caller that waits for r. It says so if nothing is to happen soon.
func endedAsleep(ctx context.Context, r *journal.Record) error {
	if asleepFor(r) <= 0 {
		return Ended(ctx)
	}
	return fmt.Errorf("it sleeps until %s: %w", r.WakeAt.UTC().Format(time.RFC3339), Ended(ctx))
}

// shortPause is how long a waiting Run waits before it looks for the second time.
func shortPause(poll time.Duration) time.Duration { return min(20*time.Millisecond, poll) }

// sleepPolls is how many Polls pass between the looks at a saga that sleeps. It ends sooner
// only if a person wakes it.
const sleepPolls = 10

// asleepFor returns for how long no engine may claim the saga; 0 or less if an engine may.
func asleepFor(r *journal.Record) time.Duration {
	if !r.Engine.IsZero() {
		return 0
	}
	return r.WakeAt.Sub(r.Now)
}

// mayWait returns the reason if it is useless to wait for r.
func (e *Engine) mayWait(r journal.Record) error {
	if !r.Status.Active() {
		return nil
	}
	if e.plans[r.Plan] == nil {
		return fmt.Errorf("%w: saga %s version %d is deferred, or executed elsewhere", ErrNoDefinition, r.Name, r.Version)
	}
	select {
	case <-e.closing:
		return detachedError(ErrClosed)
	default:
		return nil
	}
}

// Ended returns why ctx, which has ended, did: it matches what ctx.Err returns, and the
// cause that was given for it too.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

func detachedError(cause error) error {
	return fmt.Errorf("%w: %w", ErrDetached, errtext.Inner(cause))
}

// RetryNow makes a saga retry its waiting calls at once.
func (o *Operator) RetryNow(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error) {
	by.Verb = journal.VerbRetryNow
	return o.operate(ctx, id, by, func(r journal.Record) (journal.Change, error) {
		if !r.Status.Active() {
			return journal.Change{}, conflictError(r, "only a running or compensating saga waits by itself")
		}
		c := journal.Change{Wake: true}
		asleep := r.Fence == 0 // until the time that it was to be started at
		for _, entry := range r.Entries {
			if entry.IsAsleep() {
				asleep = true
				continue
			}
			if entry.Pending && entry.RetryAt.After(r.Now) {
				entry.RetryAt = time.Time{}
				c.Entries = append(c.Entries, entry)
			}
		}
		if len(c.Entries) == 0 && (asleep || !r.WakeAt.After(r.Now)) {
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

// keepInPast moves a leg back that is of a time to come: the journal's clock has gone back since. So its
// wait does not last as much longer. Its entry is due, or each further owner would begin the wait anew.
func (l *leg) keepInPast(now time.Time) {
	ahead := l.at.Sub(now)
	if ahead <= 0 {
		return
	}
	l.at = now
	if !l.retryAt.IsZero() {
		l.retryAt = l.retryAt.Add(-ahead)
		l.entry = entryDue
	}
}

// waitsBeyond reports whether a call waits until after that time to be tried again.
func (p *progress) waitsBeyond(t time.Time) bool {
	for i := range p.plan.Steps {
		if p.plan.Steps[i].IsSleep() { // a RetryNow does not end it
			continue
		}
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
		s := p.plan.Find(entry.Step)
		if s == nil || s.IsSleep() || !entry.Pending || !entry.RetryAt.IsZero() {
			continue
		}
		if l := p.leg(task{s, entry.Undo}); !l.isEnded() && !l.isRunning() && l.entry == entryWritten {
			l.retryAt = time.Time{}
		}
	}
}
