package saga

import (
	"context"
	"errors"
	"time"
)

// seekBatch is how many sagas one look of findStarted reads.
const seekBatch = 100

// seek has findStarted look for a saga that this engine may have started: at once, and then
// with each Poll for as long as the write may still become durable.
func (e *Engine) seek(id ID) {
	e.mu.Lock()
	e.sought[id] = time.Now().Add(4 * e.cfg.Lease)
	e.mu.Unlock()
	select {
	case e.seeks <- struct{}{}:
	default:
	}
}

// findStarted drives, until ctx ends, the sagas whose start had an unknown fate. Their caller
// may be gone, and reconcile would find them later.
func (e *Engine) findStarted(ctx context.Context) {
	for e.pauseOrSeek(ctx) {
		l := e.current()
		if !l.valid() || l.late() {
			continue
		}
		for _, id := range e.soughtNow() {
			if !e.adoptStarted(ctx, l, id) {
				break // the others fail as well
			}
		}
	}
}

// pauseOrSeek waits for the next look of findStarted, which has nothing to do while no saga
// is sought; false if ctx ended.
func (e *Engine) pauseOrSeek(ctx context.Context) bool {
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
	return ctx.Err() == nil
}

// adoptStarted drives the saga if it is there and is the engine's. It returns false if the journal
// did not answer.
func (e *Engine) adoptStarted(ctx context.Context, l *life, id ID) bool {
	r, err := e.journal.Read(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound): // it may come yet
		return true
	case err != nil:
		if ctx.Err() == nil {
			e.tell(EngineEvent{Kind: EngineJournalError, Engine: l.id, ID: id, Err: err})
		}
		return false
	case r.Engine == l.id && r.Status.Driven():
		e.adopt(l, r, takenOver)
	}
	e.mu.Lock()
	delete(e.sought, id)
	e.mu.Unlock()
	return true
}

// soughtNow returns the sagas to look for now. It forgets those that were looked for for long
// enough: reconcile finds them if they still come.
func (e *Engine) soughtNow() []ID {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []ID
	now := time.Now()
	for id, until := range e.sought {
		if now.After(until) || e.drives[id] != nil {
			delete(e.sought, id)
			continue
		}
		if ids = append(ids, id); len(ids) == seekBatch {
			break
		}
	}
	return ids
}
