package natsstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// segmentSize is how many records share one line of a sweep's memory.
const segmentSize = 4096

// sweeps remembers what the sweeps of this process have seen. A message never changes: a write of its key makes a new
// message at the end. So a stretch of the stream needs no second look before the first of its records is due.
type sweeps struct {
	mu       sync.Mutex // one sweep at a time
	segments []segment  // in the order of the stream; those with nothing due at any time are left out
	next     uint64     // the first revision that no sweep has seen
}

// A segment is the stretch of revisions from first to last.
type segment struct {
	first, last uint64
	due         time.Time // no record of it is due earlier; zero: never
	size        int
}

func (g *segment) add(e *entry) {
	g.size++
	for _, t := range [...]time.Time{e.sweepAfter(), e.dropAfter()} {
		g.dueAt(t)
	}
}

func (g *segment) dueAt(t time.Time) {
	if !t.IsZero() && (g.due.IsZero() || t.Before(g.due)) {
		g.due = t
	}
}

// Sweep implements [store.Store]. The first sweep of a process reads the whole bucket. A further one reads the records
// that were written since, and the stretches of the stream where some record is due.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.sweeps.mu.Lock()
	defer s.sweeps.mu.Unlock()
	w := &sweep{store: s, limit: limit, now: s.now()}
	if err := w.again(ctx); err != nil {
		return w.swept, err
	}
	err := w.onward(ctx)
	return w.swept, err
}

// A sweep is one call of [Store.Sweep].
type sweep struct {
	store          *Store
	limit          int
	now            time.Time
	swept, dropped int
}

func (w *sweep) full() bool { return w.swept >= w.limit || w.dropped >= w.limit }

// again sweeps the segments that are due.
func (w *sweep) again(ctx context.Context) error {
	memory := &w.store.sweeps
	for i := range memory.segments {
		g := &memory.segments[i]
		if w.full() {
			return nil
		}
		if !over(g.due, w.now) {
			continue
		}
		seen := segment{first: g.first, last: g.last}
		err := w.visit(ctx, g.first, func(m message) bool { return m.rev <= g.last && !w.full() }, &seen)
		if err != nil {
			return err
		}
		if !w.full() { // else something may be left: the segment stays due
			g.due = seen.due
		}
	}
	memory.segments = slices.DeleteFunc(memory.segments, func(g segment) bool { return g.due.IsZero() })
	return nil
}

// onward sweeps what no sweep has seen.
func (w *sweep) onward(ctx context.Context) error {
	memory := &w.store.sweeps
	g := segment{first: memory.next}
	keep := func() {
		if g.size > 0 && !g.due.IsZero() {
			memory.segments = append(memory.segments, g)
		}
		g = segment{first: g.last + 1}
	}
	err := w.visit(ctx, memory.next, func(m message) bool {
		if w.full() {
			return false
		}
		if g.size >= segmentSize {
			keep()
		}
		g.last, memory.next = m.rev, m.rev+1
		return true
	}, &g)
	if err != nil { // some record of the open segment may be left
		g.dueAt(w.now)
	}
	keep()
	return err
}

// visit sweeps the messages from rev on, as long as within says so, and adds those that stay to g.
func (w *sweep) visit(ctx context.Context, rev uint64, within func(message) bool, g *segment) error {
	s := w.store
	return s.stream.scan(ctx, s.stream.bucket.all(keySpace), rev, func(m message) error {
		if !within(m) {
			return errStop
		}
		e, ok := s.scanned(ctx, m)
		if !ok || !e.exists() {
			return nil
		}
		gone, err := w.one(ctx, &e)
		if !gone {
			g.add(&e)
		}
		return err
	})
}

// one sweeps one record if it is due. It returns true if its message is gone.
func (w *sweep) one(ctx context.Context, e *entry) (bool, error) {
	deletes := over(e.sweepAfter(), w.now)
	if !deletes && !over(e.dropAfter(), w.now) {
		return false, nil
	}
	c, err := w.store.change(ctx, e.ID, nil, nil, func(now *entry, _ time.Time) (verdict, error) {
		switch {
		case now.rev != e.rev: // it has moved on, and has a place further on
			return keepIt, nil
		case deletes:
			return deleteIt, nil
		}
		now.Answer = store.Answer{Status: now.Answer.Status}
		now.ref, now.parts = "", 0
		return writeIt, nil
	})
	switch {
	case err != nil:
		return false, err
	case c.did == deleteIt:
		w.swept++
	case c.did == writeIt:
		w.dropped++
	}
	return true, nil
}
