package saga

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// A sighting is a saga that is the engine's by the journal, and that it does not drive, as it
// was seen.
type sighting struct {
	fence, revision int64
}

// reconcile looks, until ctx ends, for sagas that are this engine's by the journal and that
// it does not drive: those of a start or a claim whose answer was lost. They would wait for as
// long as the engine lives. And it counts what nobody drives for want of a definition, or of a
// newer build. It looks every fourth lease, and when it is asked to.
//
// It takes only what it saw in two looks, a Poll apart: a saga may have been claimed or
// started a moment ago by another goroutine of the engine.
func (e *Engine) reconcile(ctx context.Context) {
	var seen map[ID]sighting
	soon := false
	for e.pauseOrAsked(ctx, soon) {
		l := e.current()
		if !l.valid() || l.late() {
			soon = true // what was asked for is still to be done
			continue
		}
		next, err := e.lookForOwn(ctx, l, seen)
		if err == nil && len(seen) == 0 {
			err = e.countParked(ctx, l)
		}
		if err != nil && ctx.Err() == nil {
			e.tell(EngineEvent{Kind: EngineJournalError, Engine: l.id, Err: err})
		}
		seen, soon = next, err != nil || len(next) > 0
	}
}

// pauseOrAsked waits for the next look of reconcile; false if ctx ended.
func (e *Engine) pauseOrAsked(ctx context.Context, soon bool) bool {
	wait := 4 * e.cfg.Lease
	if soon {
		wait = e.cfg.Poll
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	asked := e.asked
	if soon {
		asked = nil // a look is due anyway, and the second one not before a Poll has passed
	}
	select {
	case <-timer.C:
	case <-asked:
	case <-e.closing:
		return false
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil
}

// reconcileSoon has reconcile look at once.
func (e *Engine) reconcileSoon() {
	select {
	case e.asked <- struct{}{}:
	default:
	}
}

// lookForOwn returns the sagas of l that the engine does not drive. In a second look it adopts
// those that are as they were seen in the first, and returns none.
func (e *Engine) lookForOwn(ctx context.Context, l *life, seen map[ID]sighting) (map[ID]sighting, error) {
	next := make(map[ID]sighting)
	err := e.each(ctx, ListRequest{Engine: l.id, Limit: 1000}, func(r Record) error {
		if e.driven(r.ID) != nil {
			return nil
		}
		now := sighting{r.Fence, r.Revision}
		switch was, ok := seen[r.ID]; {
		case len(seen) == 0:
			next[r.ID] = now
			return nil
		case !ok || was != now:
			return nil
		}
		r, err := e.journal.Read(ctx, r.ID)
		if err == nil && r.Engine == l.id && r.Status.Driven() && r.Revision == now.revision {
			e.adopt(l, r, takenOver)
		}
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
	return next, err
}

// countParked counts the orphans that no definition of this engine fits.
func (e *Engine) countParked(ctx context.Context, l *life) error {
	st, err := e.journal.Stats(ctx)
	if err != nil {
		return err
	}
	parked, why := int(st.Parked), error(nil)
	if parked > 0 {
		left, err := e.journal.List(ctx, ListRequest{Parked: true, Limit: 1})
		if err != nil {
			return err
		}
		for _, r := range left {
			why = r.Parked.err()
		}
	}
	for plan, n := range st.OrphansOf {
		if e.plans[plan] == nil {
			parked, why = parked+int(n), cmp.Or(why, ErrNoDefinition)
		}
	}
	e.tellParked(l, parked, why)
	return nil
}

// tellParked tells of what is parked each time, and once that nothing is any more.
func (e *Engine) tellParked(l *life, n int, why error) {
	event := EngineEvent{Kind: EngineParked, Engine: l.id, Count: n, Err: why}
	if n > 0 || e.parked > 0 {
		e.tell(event)
	}
	e.parked = n
}

// each calls fn with every saga that matches.
func (e *Engine) each(ctx context.Context, req ListRequest, fn func(Record) error) error {
	for {
		page, err := e.journal.List(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range page {
			if err := fn(r); err != nil {
				return err
			}
		}
		if len(page) < req.Limit {
			return nil
		}
		last := page[len(page)-1]
		req.After = Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
}
