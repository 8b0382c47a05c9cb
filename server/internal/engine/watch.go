package engine

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// These constants are the backoff of a leader that polls the store, because the
// store cannot tell when a run in another process ends.
const (
	pollFirst = 25 * time.Millisecond
	pollLast  = 500 * time.Millisecond
)

// A watch is how a leader waits for a run in another process. A [store.WatchStore] tells
// that the run has ended; with another store the leader waits for a while.
type watch struct {
	engine *Engine
	poll   time.Duration // the longest next pause without a message

	fence  int64           // of the run that is watched
	ended  <-chan struct{} // nil: the store cannot tell
	stop   func()
	told   bool // the last pause ended by it
	misled bool // it told of an end that was not true
}

func (e *Engine) newWatch() *watch {
	return &watch{engine: e, poll: pollFirst, stop: func() {}}
}

// pause waits before the leader asks again about rec, at most for most. It ends when the
// run may have ended, when its lease has ended, or when a follower needs to know. It
// returns false if the leader should not wait any more.
func (w *watch) pause(ctx context.Context, m *member, rec *store.Record, most time.Duration) bool {
	w.turnTo(rec)
	timer := time.NewTimer(min(most, w.interval(rec)))
	defer timer.Stop()
	select {
	case <-w.ended:
		w.told = true
		return true
	case <-timer.C:
		return true
	case <-m.askRequests():
		return true
	case <-w.engine.drain.closing:
		return false
	case <-ctx.Done():
		return false
	}
}

// turnTo watches rec's run. A watch of the same run stays open. The leader asks again for each follower that comes,
// and a store may have to write for a new watch. If a store told of the end of a run that goes on, its messages are
// ignored. Otherwise it could make the leader ask without a pause.
func (w *watch) turnTo(rec *store.Record) {
	same := w.ended != nil && w.fence == rec.Fence
	w.misled = w.misled || (same && w.told)
	w.told = false
	if same && !w.misled {
		return
	}
	w.end()
	if w.engine.watchStore == nil || w.misled || rec.State != store.StateInProgress || rec.LeaseLeft() <= 0 {
		return
	}
	w.fence = rec.Fence
	w.ended, w.stop = w.engine.watchStore.Watch(rec.ID, rec.Fence)
}

// interval is the longest time without a message. No store tells that a lease
// has ended, so the interval is the rest of the lease.
func (w *watch) interval(rec *store.Record) time.Duration {
	if w.ended != nil {
		return max(rec.LeaseLeft(), 0)
	}
	d := w.poll/2 + rand.N(w.poll/2)
	w.poll = min(2*w.poll, pollLast)
	return d
}

func (w *watch) end() {
	w.stop()
	w.ended, w.stop = nil, func() {}
}
