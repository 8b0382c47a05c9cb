package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

const (
	// lookBatch is how many sagas one read of a lookout names.
	lookBatch = 1000
	// lookTimeout is the least that such a read may take.
	lookTimeout = 5 * time.Second
)

// A lookout reads sagas for the callers in this process that wait for them, while other engines execute
// them or none does. What is due together is one read, however many callers wait.
type lookout struct {
	born time.Time     // since when its ticks count
	poke chan struct{} // tells the loop of an earlier question

	mu   sync.Mutex
	asks []*ask
	next time.Time // when the earliest of them is due
}

// An ask is a caller's question about a saga.
type ask struct {
	id     journal.ID
	due    time.Time
	answer chan looked // buffered: the caller may be gone
}

// looked is what a read of one saga said.
type looked struct {
	record journal.Record
	whole  bool // the record is no outline
	err    error
}

func newLookout() *lookout {
	return &lookout{born: time.Now(), poke: make(chan struct{}, 1)}
}

// after asks for the saga in that time or up to a tick earlier, so that the questions of many
// callers are due together.
func (l *lookout) after(pause, tick time.Duration, id journal.ID) <-chan looked {
	a := &ask{id: id, due: time.Now(), answer: make(chan looked, 1)}
	if pause > 0 {
		a.due = l.born.Add((time.Since(l.born) + pause).Truncate(tick))
	}
	l.mu.Lock()
	l.asks = append(l.asks, a)
	first := len(l.asks) == 1 || a.due.Before(l.next)
	if first {
		l.next = a.due
	}
	l.mu.Unlock()
	if first {
		select {
		case l.poke <- struct{}{}:
		default:
		}
	}
	return a.answer
}

// take removes the questions that are due, and returns them, or how long it is until one is.
func (l *lookout) take() (due []*ask, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.asks = slices.DeleteFunc(l.asks, func(a *ask) bool {
		if a.due.After(now) {
			return false
		}
		due = append(due, a)
		return true
	})
	wait = time.Hour // nobody waits
	for i, a := range l.asks {
		if i == 0 || a.due.Before(l.next) {
			l.next, wait = a.due, a.due.Sub(now)
		}
	}
	return due, wait
}

// lookOut answers the questions of callers that wait, until ctx ends.
func (e *Engine) lookOut(ctx context.Context) {
	for ctx.Err() == nil {
		due, wait := e.lookout.take()
		if len(due) > 0 {
			for some := range slices.Chunk(due, lookBatch) {
				e.answer(ctx, some)
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-e.lookout.poke:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// answer reads the sagas in question, all in one read. A saga alone is read as a whole: it may be over.
func (e *Engine) answer(ctx context.Context, asks []*ask) {
	ctx, cancel := context.WithTimeout(ctx, max(lookTimeout, e.cfg.Lease/3))
	defer cancel()
	var ids []journal.ID
	found := make(map[journal.ID]looked, len(asks))
	for _, a := range asks {
		if _, ok := found[a.id]; !ok {
			ids, found[a.id] = append(ids, a.id), looked{err: journal.ErrNotFound}
		}
	}
	err := graph.Guarded(func() error {
		if len(ids) == 1 {
			r, err := e.journal.Read(ctx, ids[0])
			found[ids[0]] = looked{r, true, err}
			return nil
		}
		records, err := e.journal.ReadOutlines(ctx, ids)
		for _, r := range records {
			found[r.ID] = looked{record: r}
		}
		return err
	})
	for _, a := range asks {
		l := found[a.id]
		if err != nil {
			l = looked{err: err}
		}
		a.answer <- l
	}
}

// readAfter returns the saga after a pause. If an execution of it has begun in this process since b is listened to,
// or ctx ends, it returns at once, without a record.
func (e *Engine) readAfter(ctx context.Context, b *bell, pause time.Duration, id journal.ID) (r *journal.Record, err error) {
	tick := e.cfg.Poll
	if pause < tick {
		tick = shortPause(tick)
	}
	select {
	case l := <-e.lookout.after(pause, tick, id):
		if l.err != nil || l.whole || l.record.Status.Active() {
			return &l.record, l.err
		}
	case <-e.closing: // a last look
	case <-b.rung:
		return nil, nil
	case <-ctx.Done():
		return nil, nil
	}
	whole, err := e.journal.Read(ctx, id)
	return &whole, err
}
