package server

import (
	"context"
	"math/rand/v2"
	"time"
)

// The backoff of a leader that asks the store again and again, since the store
// cannot tell when a run in another process ends.
const (
	pollFirst = 25 * time.Millisecond
	pollLast  = 500 * time.Millisecond
)

// A watch is how a leader waits for a run in another process: until the store
// tells that it has ended, if the store is a [WatchStore], else for a while.
type watch struct {
	guard *Guard
	poll  time.Duration // the longest next pause where nobody tells

	fence  int64           // of the run that is watched
	ended  <-chan struct{} // nil: nobody tells
	stop   func()
	told   bool // the last pause ended by it
	misled bool // it told what was not so
}

func (g *Guard) newWatch() *watch {
	return &watch{guard: g, poll: pollFirst, stop: func() {}}
}

// pause waits before the leader asks again about rec, for at most so long: until
// the run may have ended, until its lease has, or until a follower needs to
// know. It returns false if the leader should not wait any more.
func (w *watch) pause(ctx context.Context, s *seat, rec *Record, most time.Duration) bool {
	w.turnTo(rec)
	timer := time.NewTimer(min(most, w.interval(rec)))
	defer timer.Stop()
	select {
	case <-w.ended:
		w.told = true
		return true
	case <-timer.C:
		return true
	case <-s.f.hurry:
		return true
	case <-w.guard.gate.closing:
		return false
	case <-ctx.Done():
		return false
	}
}

// turnTo watches rec's run, and goes on if it does already: for each follower that
// comes the leader asks again, and a store may have to write for a new watch.
// A store that told the end of a run which goes on is not listened to any more,
// or it could make the leader ask without a pause.
func (w *watch) turnTo(rec *Record) {
	same := w.ended != nil && w.fence == rec.Fence
	w.misled = w.misled || (same && w.told)
	w.told = false
	if same && !w.misled {
		return
	}
	w.end()
	if w.guard.watchStore == nil || w.misled || rec.State != StateInProgress || rec.LeaseLeft() <= 0 {
		return
	}
	w.fence = rec.Fence
	w.ended, w.stop = w.guard.watchStore.Watch(rec.ID, rec.Fence)
}

// interval is how long nobody may tell anything. No store tells that a lease has
// ended, so it is what was left of it.
func (w *watch) interval(rec *Record) time.Duration {
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
