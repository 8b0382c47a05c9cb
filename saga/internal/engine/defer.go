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
func (x *execution) unknown() error {
	if x.progress.status == journal.Running && x.progress.cancel {
		return nil
	}
	if err := x.checkReadable(); errors.Is(err, journal.ErrNewer) {
		return err
	}
	return nil
}

// beginOrSetAside begins the calls of a decision. over says that it put the saga aside
// instead.
func (x *execution) beginOrSetAside(d *decision) (over bool, err error) {
	err = x.begin(d)
	switch {
	case errors.Is(err, journal.ErrNewer) && x.progress.running > 0:
		// The build that takes the saga over is to find the outcomes of these calls.
		d.wake = time.Time{}
		return false, nil
	case errors.Is(err, journal.ErrCorrupt):
		return true, x.setAside(err)
	}
	return false, err
}

// setAside ends the execution of a saga that this build cannot read. A part that it does not
// know may be known to another build, which takes the saga over; else a person must look.
func (x *execution) setAside(cause error) error {
	if !errors.Is(cause, journal.ErrNewer) {
		return x.quarantine(journal.ReasonCorrupt, cause)
	}
	deferral := &journal.Failure{Reason: journal.ReasonNewer, Detail: detail(cause)}
	if err := x.append(journal.Write{Revision: x.revision + 1, Defer: deferral}); err != nil {
		return err
	}
	x.engine.deferredOne(x.plan.Record.Hash)
	x.engine.tell(journal.Event{Kind: journal.EventLeftToNewer, Engine: x.owner.Engine, ID: x.owner.ID, Err: cause})
	return fmt.Errorf("saga: deferred: %w", cause)
}
