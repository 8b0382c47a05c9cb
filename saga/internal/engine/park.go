package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// The waits of an engine after it parked a saga, before it claims parked sagas of that
// plan again. The wait doubles each time.
const (
	shortestParking = 5 * time.Second
	longestParking  = time.Minute
)

// A parking says when an engine may claim the parked sagas of a plan again. A build that
// knows what is stored never parks, and so claims parked sagas at once.
type parking struct {
	until time.Time
	wait  time.Duration
}

// parkedOne books that the engine could not read a saga of the plan.
func (e *Engine) parkedOne(plan journal.PlanHash) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	p, ok := e.parkings[plan]
	switch {
	case ok && now.Before(p.until): // the same claim returned another parked saga
		return
	case ok:
		p.wait = min(2*p.wait, longestParking)
	default:
		p.wait = shortestParking
	}
	p.until = now.Add(p.wait)
	e.parkings[plan] = p
}

// unparkable returns the plans whose parked sagas the engine may claim now. If it parked sagas of
// a plan, it claims one batch of that plan. more says that this is not the first batch.
func (e *Engine) unparkable(plans []journal.PlanHash, more bool) []journal.PlanHash {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(plans), func(plan journal.PlanHash) bool {
		p, parked := e.parkings[plan]
		return parked && (more || now.Before(p.until))
	})
}

// unknown returns an error if the saga has a part that this build needs and does not know. Then
// another build must handle its deadlines too. Any build turns a cancelled saga, since its undos
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
	park := &journal.Failure{Reason: journal.ReasonNewer, Detail: detail(cause)}
	if err := d.append(journal.Write{Revision: d.revision + 1, Park: park}); err != nil {
		return err
	}
	d.engine.parkedOne(d.plan.Record.Hash)
	d.engine.tell(Event{Kind: EventLeftToNewer, Engine: d.owner.Engine, ID: d.owner.ID, Err: cause})
	return fmt.Errorf("saga: parked: %w", cause)
}
