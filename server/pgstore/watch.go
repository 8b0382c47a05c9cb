package pgstore

import (
	"slices"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var _ store.WatchStore = (*Store)(nil)

// Watch implements [store.WatchStore]. One goroutine asks the database about all runs that are
// watched, in one statement every 5 ms and, the longer they take, every 250 ms at last. With
// [Config].Listen the database tells, within a millisecond or so. After [Store.Close], and while
// the server does not answer, the channel is closed although the run may not have ended.
func (s *Store) Watch(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	return s.poller.add(id, fence)
}

// Listening reports whether the connection of [Config].Listen is there at this
// moment. It is made when somebody first waits.
func (s *Store) Listening() bool {
	s.poller.mu.Lock()
	defer s.poller.mu.Unlock()
	return s.poller.hears
}

// A watched is a run that somebody waits for. The poller's mutex guards it.
type watched struct {
	id       store.ID
	fence    int64
	ended    chan struct{}
	watchers int
	since    time.Time
	due      time.Time // the next look
	noted    bool      // whoever ends it will send a notification
}

// interval is the time from one look to the next.
func (w *watched) interval(now time.Time, hears bool) time.Duration {
	if w.noted && hears {
		return pollLast
	}
	return min(max(now.Sub(w.since)/pollShare, pollFirst), pollLast)
}

// add makes the caller wait for the end of a run.
func (p *poller) add(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		over := make(chan struct{})
		close(over)
		return over, func() {}
	}
	w := p.find(id, fence)
	w.watchers++
	p.start()
	return w.ended, sync.OnceFunc(func() { p.leave(w) })
}

// find returns the watched run, a new one if nobody watches it. p.mu is held.
func (p *poller) find(id store.ID, fence int64) *watched {
	for _, w := range p.watches[id] {
		if w.fence == fence {
			return w
		}
	}
	now := time.Now()
	w := &watched{id: id, fence: fence, ended: make(chan struct{}), since: now, due: now.Add(pollFirst)}
	p.watches[id] = append(p.watches[id], w)
	return w
}

func (p *poller) leave(w *watched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.watchers--
	if w.watchers == 0 {
		p.remove(w)
		p.poke() // perhaps it was the last
	}
}

// remove returns false if nobody watches w any more. p.mu is held.
func (p *poller) remove(w *watched) bool {
	i := slices.Index(p.watches[w.id], w)
	if i < 0 {
		return false
	}
	left := slices.Delete(p.watches[w.id], i, i+1)
	if len(left) == 0 {
		delete(p.watches, w.id)
	} else {
		p.watches[w.id] = left
	}
	return true
}

// tell wakes the waiters of w. p.mu is held.
func (p *poller) tell(w *watched) {
	if p.remove(w) {
		close(w.ended)
	}
}

// tellAll wakes everybody. p.mu is held.
func (p *poller) tellAll() {
	for _, w := range p.all() {
		p.tell(w)
	}
}

// all returns the watched runs. p.mu is held.
func (p *poller) all() (all []*watched) {
	for _, ofKey := range p.watches {
		all = append(all, ofKey...)
	}
	return all
}

// notified wakes the waiters for a run of the key.
func (p *poller) notified(id store.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range slices.Clone(p.watches[id]) {
		p.tell(w)
	}
}

// hear is called when the listener begins to hear, and when it ceases to. The listener may have
// missed ends in between, so all runs are due.
func (p *poller) hear(hears bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hears = hears
	now := time.Now()
	for _, w := range p.all() {
		w.due = now
	}
	p.poke()
}
