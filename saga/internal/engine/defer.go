package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// The waits of an engine after it deferred a saga, before it claims deferred sagas of that
// plan again. The wait doubles each time.
const (
	shortestDeferral = 5 * time.Second
	longestDeferral  = time.Minute
)

// A deferral says when an engine may claim the deferred sagas of a plan again. A build that
// knows what is stored never defers, and so claims deferred sagas at once.
type deferral struct {
	until time.Time
	wait  time.Duration
}

// deferredOne books that the engine could not read a saga of the plan.
func (e *Engine) deferredOne(plan journal.PlanHash) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	p, ok := e.deferrals[plan]
	switch {
	case ok && now.Before(p.until): // the same claim returned another deferred saga
		return
	case ok:
		p.wait = min(2*p.wait, longestDeferral)
	default:
		p.wait = shortestDeferral
	}
	p.until = now.Add(p.wait)
	e.deferrals[plan] = p
}

// claimableDeferred returns the plans whose deferred sagas the engine may claim now. If it deferred sagas of
// a plan, it claims one batch of that plan. more says that this is not the first batch.
func (e *Engine) claimableDeferred(plans []journal.PlanHash, more bool) []journal.PlanHash {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(plans), func(plan journal.PlanHash) bool {
		p, deferred := e.deferrals[plan]
		return deferred && (more || now.Before(p.until))
	})
}

// unknown returns an error if the saga has a part that this build needs and does not know. Then
// another build must handle its deadlines too. Any build compensates a cancelled saga, since its undos
// may need less.
func (d *execution) unknown() error {
	if d.progress.status == journal.Running && d.progress.cancel {
		return nil
	}
	if err := d.legible(); errors.Is(err, journal.ErrNewer) {
		return err
	}
	return nil
}

// beginOrSetAside begins the calls of a decision. over says that it put the saga aside
// instead.
func (d *execution) beginOrSetAside(decision *decision) (over bool, err error) {
	err = d.begin(decision)
	switch {
	case errors.Is(err, journal.ErrNewer) && d.progress.running > 0:
		// The build that takes the saga over is to find the outcomes of these calls.
		decision.wake = time.Time{}
		return false, nil
	case errors.Is(err, journal.ErrCorrupt):
		return true, d.setAside(err)
	}
	return false, err
}

// setAside ends the execution of a saga that this build cannot read. A part that it does not
// know may be known to another build, which takes the saga over; else a person must look.
func (d *execution) setAside(cause error) error {
	if !errors.Is(cause, journal.ErrNewer) {
		return d.quarantine(journal.ReasonCorrupt, cause)
	}
	deferral := &journal.Failure{Reason: journal.ReasonNewer, Detail: detail(cause)}
	if err := d.append(journal.Write{Revision: d.revision + 1, Defer: deferral}); err != nil {
		return err
	}
	d.engine.deferredOne(d.plan.Record.Hash)
	d.engine.tell(journal.Event{Kind: journal.EventLeftToNewer, Engine: d.owner.Engine, ID: d.owner.ID, Err: cause})
	return fmt.Errorf("saga: deferred: %w", cause)
}
