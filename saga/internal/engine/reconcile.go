package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
)

// A sighting is the record of a saga that the engine owns in the journal but does not execute.
type sighting struct {
	fence, revision int64
}

// reconcile looks, until ctx ends, for sagas that this engine owns in the journal but does not
// execute. Such a saga comes from a start or a claim whose answer was lost. Without reconcile it
// would wait while the engine lives. reconcile also counts the sagas that wait for a definition
// or for a newer build. It looks every fourth lease, and on request.
//
// It takes only a saga that it saw in two looks, a Poll apart: another goroutine of the engine
// may have claimed or started the saga a moment ago.
func (e *Engine) reconcile(ctx context.Context) {
	var seen map[journal.ID]sighting
	soon := false
	for e.pauseBeforeReconcile(ctx, soon) {
		l := e.current()
		if !l.isValid() || l.isLate() {
			soon = true // what was asked for is still to be done
			continue
		}
		next, err := e.lookForOwn(ctx, l, seen)
		if err == nil && len(seen) == 0 {
			err = e.countDeferred(ctx, l)
		}
		if err != nil && ctx.Err() == nil {
			e.tell(journal.Event{Kind: journal.EventJournalError, Engine: l.id, Err: err})
		}
		seen, soon = next, err != nil || len(next) > 0
	}
}

// pauseBeforeReconcile waits for the next look of reconcile; false if ctx ended.
func (e *Engine) pauseBeforeReconcile(ctx context.Context, soon bool) bool {
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
	return ctx.Err() == nil && !e.isClosing()
}

// reconcileSoon makes reconcile look at once.
func (e *Engine) reconcileSoon() {
	select {
	case e.asked <- struct{}{}:
	default:
	}
}

// lookForOwn returns the sagas of l that the engine does not execute. In a second look it adopts
// those that are as they were seen in the first, and returns none.
func (e *Engine) lookForOwn(ctx context.Context, l *lease, seen map[journal.ID]sighting) (map[journal.ID]sighting, error) {
	next := make(map[journal.ID]sighting)
	err := e.each(ctx, journal.ListRequest{Engine: l.id, Limit: 1000}, func(r journal.Record) error {
		if e.executing(r.ID) != nil {
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
		asked := time.Now()
		r, err := e.journal.Read(ctx, r.ID)
		if err == nil && r.Engine == l.id && r.Status.Active() && r.Revision == now.revision {
			e.adopt(l, r, takenOver, asked)
		}
		if errors.Is(err, journal.ErrNotFound) {
			return nil
		}
		return err
	})
	return next, err
}

// errNoVersion is why sagas of a plan that this engine lacks wait.
var errNoVersion = fmt.Errorf("%w here: keep each version in Config.Definitions until its sagas have ended", ErrNoDefinition)

// countDeferred counts the unowned sagas without a definition in this engine.
func (e *Engine) countDeferred(ctx context.Context, l *lease) error {
	st, err := e.journal.Stats(ctx)
	if err != nil {
		return err
	}
	deferred, why := int(st.Deferred), error(nil)
	if deferred > 0 {
		left, err := e.journal.List(ctx, journal.ListRequest{Deferred: true, Limit: 1})
		if err != nil {
			return err
		}
		for _, r := range left {
			why = fmt.Errorf("%w: %s", journal.ErrNewer, r.Deferred.Detail)
		}
	}
	for plan, n := range st.UnownedOf {
		if e.plans[plan] == nil {
			deferred, why = deferred+int(n), cmp.Or(why, errNoVersion)
		}
	}
	e.tellDeferred(l, deferred, why)
	return nil
}

// tellDeferred reports the number of deferred sagas each time, and reports once that none is left.
func (e *Engine) tellDeferred(l *lease, n int, why error) {
	event := journal.Event{Kind: journal.EventDeferred, Engine: l.id, Count: n, Err: why}
	if n > 0 || e.deferred > 0 {
		e.tell(event)
	}
	e.deferred = n
}

// each calls fn with every saga that matches.
func (e *Engine) each(ctx context.Context, req journal.ListRequest, fn func(journal.Record) error) error {
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
		req.After = journal.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
}

// seekBatch is how many sagas one look of findStarted reads.
const seekBatch = 100

// seek makes findStarted look for a saga that this engine may have started. It looks at once, and
// then with each Poll while the write may still become durable.
func (e *Engine) seek(id journal.ID) {
	e.mu.Lock()
	e.sought[id] = time.Now().Add(4 * e.cfg.Lease)
	e.mu.Unlock()
	select {
	case e.seeks <- struct{}{}:
	default:
	}
}

// findStarted executes, until ctx ends, the sagas whose start had an unknown fate. Their caller
// may be gone, and reconcile would find them later.
func (e *Engine) findStarted(ctx context.Context) {
	for e.pauseBeforeFind(ctx) {
		l := e.current()
		if !l.isValid() || l.isLate() {
			continue
		}
		ids := e.soughtNow()
		if len(ids) > 1 { // most of them are not there, and one read says so
			found, err := e.journal.ReadOutlines(ctx, ids)
			if err != nil && ctx.Err() == nil {
				e.tell(journal.Event{Kind: journal.EventJournalError, Engine: l.id, Err: err})
			}
			ids = ids[:0]
			for _, r := range found {
				ids = append(ids, r.ID)
			}
		}
		for _, id := range ids {
			if !e.adoptStarted(ctx, l, id) {
				break // the others fail as well
			}
		}
	}
}

// pauseBeforeFind waits for the next look of findStarted, which has nothing to do while no saga
// is sought; false if ctx ended.
func (e *Engine) pauseBeforeFind(ctx context.Context) bool {
	e.mu.Lock()
	idle := len(e.sought) == 0
	e.mu.Unlock()
	var due <-chan time.Time
	if !idle {
		timer := time.NewTimer(e.poll())
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-due:
	case <-e.seeks:
	case <-e.closing:
		return false
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil && !e.isClosing()
}

// adoptStarted executes the saga if it is there and is the engine's. It returns false if the journal
// did not answer.
func (e *Engine) adoptStarted(ctx context.Context, l *lease, id journal.ID) bool {
	asked := time.Now()
	r, err := e.journal.Read(ctx, id)
	switch {
	case errors.Is(err, journal.ErrNotFound): // it may come yet
		return true
	case err != nil:
		if ctx.Err() == nil {
			e.tell(journal.Event{Kind: journal.EventJournalError, Engine: l.id, ID: id, Err: err})
		}
		return false
	case r.Engine == l.id && r.Status.Active():
		e.adopt(l, r, takenOver, asked)
	}
	e.mu.Lock()
	delete(e.sought, id)
	e.mu.Unlock()
	return true
}

// soughtNow returns the sagas to look for now. It forgets those that were looked for for long
// enough: reconcile finds them if they still come.
func (e *Engine) soughtNow() []journal.ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []journal.ID
	now := time.Now()
	for id, until := range e.sought {
		if now.After(until) || e.executions[id] != nil {
			delete(e.sought, id)
			continue
		}
		if ids = append(ids, id); len(ids) == seekBatch {
			break
		}
	}
	return ids
}
