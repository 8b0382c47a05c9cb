package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server/store"
)

const (
	pollFirst = 5 * time.Millisecond
	pollLast  = 250 * time.Millisecond
	// pollHeard is the pause between two looks at a run whose end is published to us: a message can be lost.
	pollHeard = 2 * time.Second
	// pollShare: a run that was watched for a while is looked at every fourth part of that while.
	pollShare  = 4
	pollMax    = time.Second // the longest that one look may take
	resubPause = 200 * time.Millisecond
)

// A run is one attempt at a key.
type run struct {
	id    store.ID
	fence float64
}

// A watchedRun is a run that somebody waits for. The watcher's mutex guards it.
type watchedRun struct {
	ended    chan struct{}
	watchers int
	since    time.Time
	due      time.Time // the next look
}

// A watcher waits for the ends of runs, for all callers of the process: with one subscription, and with looks at the
// records behind it. It starts with the first Watch.
type watcher struct {
	store *Store

	mu     sync.Mutex
	runs   map[run]*watchedRun
	hears  bool // the subscription is there
	begun  bool
	closed bool
	wake   chan struct{}
}

func newWatcher(s *Store) *watcher {
	return &watcher{store: s, runs: make(map[run]*watchedRun), wake: make(chan struct{}, 1)}
}

// Watch implements [store.WatchStore]. The record notes that somebody waits, and whoever ends the run publishes that.
// A process has one subscription. It also looks at the records, first after 5 ms, at last every 2 s, or every 250 ms
// while the subscription is broken. After [Store.Close], and while the server does not answer, the channel is closed
// although the run may not have ended.
func (s *Store) Watch(id store.ID, fence int64) (ended <-chan struct{}, stop func()) {
	w := s.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		over := make(chan struct{})
		close(over)
		return over, func() {}
	}
	key := run{id, float64(fence)}
	wd := w.runs[key]
	if wd == nil {
		now := time.Now()
		wd = &watchedRun{ended: make(chan struct{}), since: now, due: now}
		w.runs[key] = wd
	}
	wd.watchers++
	w.start()
	return wd.ended, sync.OnceFunc(func() { w.leave(key, wd) })
}

// Listening reports whether the subscription is there at this moment. It is made when somebody first waits.
func (s *Store) Listening() bool {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return s.watch.hears
}

// start begins the work of the watcher, or wakes it. mu is held.
func (w *watcher) start() {
	if !w.begun {
		if !w.store.enter() {
			return
		}
		w.begun = true
		w.store.work.Go(w.listen)
		w.store.work.Go(w.look)
		w.store.work.Done()
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) leave(key run, wd *watchedRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wd.watchers--; wd.watchers == 0 && w.runs[key] == wd {
		delete(w.runs, key)
	}
}

// end wakes the callers that wait for a run. mu is held.
func (w *watcher) end(key run) {
	if wd := w.runs[key]; wd != nil {
		delete(w.runs, key)
		close(wd.ended)
	}
}

func (w *watcher) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for key := range w.runs {
		w.end(key)
	}
}

// listen keeps the subscription until the store is closed.
func (w *watcher) listen() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sub := w.store.client.Subscribe(ctx, w.store.channel())
	defer sub.Close()
	w.store.work.Go(func() { // Receive does not end with ctx
		<-w.store.closing
		cancel()
		_ = sub.Close()
	})
	for {
		message, err := sub.Receive(ctx)
		switch m := message.(type) {
		case *redis.Subscription:
			w.setHears(true)
		case *redis.Message:
			w.receive(m.Payload)
		}
		if err == nil {
			continue
		}
		w.setHears(false)
		select {
		case <-w.store.closing:
			return
		case <-time.After(resubPause):
		}
	}
}

// setHears notes whether the subscription is there. If it is new, every record is looked at: its end may have been
// published before.
func (w *watcher) setHears(hears bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hears = hears
	for _, wd := range w.runs {
		wd.due = time.Now()
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// receive ends the run that a message names.
func (w *watcher) receive(payload string) {
	const idBytes = len(store.ID{})
	if len(payload) != idBytes+8 {
		return // of a later version
	}
	fence := math.Float64frombits(binary.BigEndian.Uint64([]byte(payload[idBytes:])))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(run{store.ID([]byte(payload[:idBytes])), fence})
}

// look looks at the records that are due, until the store is closed.
func (w *watcher) look() {
	timer := time.NewTimer(pollLast)
	defer timer.Stop()
	for {
		due, next := w.takeDue(time.Now())
		if len(due) > 0 {
			w.ask(due)
			continue
		}
		timer.Reset(next)
		select {
		case <-w.store.closing:
			return
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// takeDue returns the runs to look at now, and how long it is until the next one.
func (w *watcher) takeDue(now time.Time) (due []run, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = time.Hour
	for key, wd := range w.runs {
		if wd.due.After(now) {
			next = min(next, wd.due.Sub(now))
			continue
		}
		due = append(due, key)
		wd.due = now.Add(w.interval(wd, now))
	}
	return due, next
}

// interval is the pause until the next look.
func (w *watcher) interval(wd *watchedRun, now time.Time) time.Duration {
	if w.hears {
		return pollHeard
	}
	return min(max(now.Sub(wd.since)/pollShare, pollFirst), pollLast)
}

// ask looks at runs, and notes in each that somebody waits.
func (w *watcher) ask(due []run) {
	ctx, cancel := context.WithTimeout(context.Background(), pollMax)
	defer cancel()
	calls := make([]*call, len(due))
	errs := make([]error, len(due))
	for i, key := range due {
		var fence [8]byte
		putNumber(fence[:], key.fence)
		b := w.store.bucketOf(key.id)
		calls[i], errs[i] = w.store.begin(ctx, noteScript, b, []string{b.record(key.id)}, fence[:])
	}
	for i, key := range due {
		var value any
		if errs[i] == nil {
			value, errs[i] = w.store.end(ctx, calls[i])
		}
		goesOn, _ := value.(int64)
		if errs[i] != nil && errors.Is(errs[i], ErrQueueFull) {
			continue // busy, not silent
		}
		if errs[i] != nil || goesOn != 1 {
			w.mu.Lock()
			w.end(key)
			w.mu.Unlock()
		}
	}
}
