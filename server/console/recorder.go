package console

import (
	"context"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

const (
	defaultEvents = 10_000
	// maxEventsOfKey bounds the page of a key that very many calls use.
	maxEventsOfKey = 100
)

// A Recorder keeps the latest events of a guard in memory, so that the page of a key shows them: claims, take-overs,
// waits, replays and settlements. It is a [server.Observer] and a [server.Tracer]: give it to a guard as
// [server.Config].Observer, and to the console as [Store].Recorder. It knows the events of its own process alone,
// and forgets them when the process ends. It keeps no error's text.
//
// Make one with [NewRecorder]. It is safe for concurrent use.
type Recorder struct {
	next   server.Observer // nil: nobody
	tracer server.Tracer   // next, if it is one

	mu    sync.Mutex
	ring  []recorded
	first int64 // the number of the oldest event
	end   int64 // the number of the next event
	byID  map[store.ID][]int64
}

// A recorded event is what the Recorder keeps of a [server.Event], or of a run that began.
type recorded struct {
	ID       store.ID
	At       time.Time
	Kind     string // of the event, or "run_started"
	Route    string
	Code     string
	Fence    int64 // of a run that began
	Duration time.Duration
	Failed   bool // the event had an error
}

// NewRecorder returns a Recorder of the last n events, at most 100 of them of one key. An event takes about 200 bytes.
// n of 0 or less means 10,000.
//
// next gets every event too, such as [server.Metrics]. If next is a [server.Tracer] it also hears of calls and runs.
// nil means nobody.
func NewRecorder(n int, next server.Observer) *Recorder {
	if n <= 0 {
		n = defaultEvents
	}
	r := &Recorder{next: next, ring: make([]recorded, n), byID: make(map[store.ID][]int64)}
	if isNil(next) {
		r.next = nil
	}
	r.tracer, _ = r.next.(server.Tracer)
	return r
}

// Observe implements [server.Observer].
func (r *Recorder) Observe(ctx context.Context, e server.Event) {
	if r.next != nil {
		r.next.Observe(ctx, e)
	}
	r.add(recorded{ID: e.ID, Kind: e.Kind.String(), Route: e.Route, Code: string(e.Code), Duration: e.Duration, Failed: e.Err != nil})
}

// CallStarted implements [server.Tracer].
func (r *Recorder) CallStarted(ctx context.Context, e server.CallEvent) context.Context {
	if r.tracer != nil {
		return r.tracer.CallStarted(ctx, e)
	}
	return ctx
}

// CallEnded implements [server.Tracer].
func (r *Recorder) CallEnded(ctx context.Context) {
	if r.tracer != nil {
		r.tracer.CallEnded(ctx)
	}
}

// RunStarted implements [server.Tracer].
func (r *Recorder) RunStarted(ctx context.Context, e server.RunEvent) context.Context {
	r.add(recorded{ID: e.ID, Kind: "run_started", Route: e.Route, Fence: e.Fence})
	if r.tracer != nil {
		return r.tracer.RunStarted(ctx, e)
	}
	return ctx
}

// RunEnded implements [server.Tracer].
func (r *Recorder) RunEnded(ctx context.Context) {
	if r.tracer != nil {
		r.tracer.RunEnded(ctx)
	}
}

// Trace implements [server.Tracer].
func (r *Recorder) Trace(ctx context.Context) string {
	if r.tracer != nil {
		return r.tracer.Trace(ctx)
	}
	return ""
}

// add keeps one event. An event without a key belongs to no page.
func (r *Recorder) add(e recorded) {
	if e.ID == (store.ID{}) {
		return
	}
	e.At = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end-r.first == int64(len(r.ring)) {
		r.dropOldest()
	}
	numbers := r.byID[e.ID]
	if len(numbers) == maxEventsOfKey {
		numbers = append(numbers[:0], numbers[1:]...)
	}
	r.ring[r.end%int64(len(r.ring))] = e
	r.byID[e.ID] = append(numbers, r.end)
	r.end++
}

// dropOldest makes place for one event. The caller has the lock.
func (r *Recorder) dropOldest() {
	id := r.ring[r.first%int64(len(r.ring))].ID
	// The key may have dropped the event already: it had too many.
	if numbers := r.byID[id]; len(numbers) > 0 && numbers[0] == r.first {
		if len(numbers) == 1 {
			delete(r.byID, id)
		} else {
			r.byID[id] = numbers[1:]
		}
	}
	r.first++
}

// events returns the kept events of a key, the oldest first.
func (r *Recorder) events(id store.ID) []recorded {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]recorded, 0, len(r.byID[id]))
	for _, number := range r.byID[id] {
		out = append(out, r.ring[number%int64(len(r.ring))])
	}
	return out
}

// replays counts the kept replays of a key.
func (r *Recorder) replays(id store.ID) (n int) {
	for _, e := range r.events(id) {
		if e.Kind == server.EventHit.String() {
			n++
		}
	}
	return n
}
