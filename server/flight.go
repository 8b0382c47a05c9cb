package server

import (
	"sync"
	"time"
)

// A phase is what the leader of a flight is doing.
type phase uint8

const (
	phaseIdle      phase = iota // between two asks, or nobody leads
	phaseAsking                 // the leader is at the store
	phaseRunning                // the leader's handler runs
	phaseSettling               // the run is being recorded: it may be visible elsewhere already
	phaseContended              // the leader waits for a transaction that is deciding about the key
)

// flights are the requests of this process, by key. Of the requests for one
// key one leads: only it goes to the store, and only it runs. The others
// follow, and learn from it what to answer.
type flights struct {
	mu      sync.Mutex
	byID    map[ID]*flight
	waiting waiting
}

// waiting is the seats that wait for a run, of all keys.
type waiting struct {
	all     room
	byScope map[string]room // a scope without seats is not in it
}

// A room is seats, and the bytes of their bodies.
type room struct{ seats, bytes int64 }

// holds reports whether a seat more, with so many bytes, is within r.
func (r room) holds(used room, bytes int64) bool {
	return used.seats < r.seats && bytes <= r.bytes-used.bytes
}

// A waitCap is how many seats may wait, and with how many bytes.
type waitCap struct {
	perKey int
	all    room
	least  int64 // bytes that a scope may take, unless others took them
}

// share is the part of c that one scope may take.
func (c waitCap) share(scope string) room {
	return room{shareOf(scope, c.all.seats, 1), shareOf(scope, c.all.bytes, c.least)}
}

func (w *waiting) fits(scope string, bytes int64, most waitCap) bool {
	return most.all.holds(w.all, bytes) && most.share(scope).holds(w.byScope[scope], bytes)
}

func (w *waiting) add(scope string, bytes int64) {
	if w.byScope == nil {
		w.byScope = make(map[string]room)
	}
	w.change(scope, 1, bytes)
}

func (w *waiting) remove(scope string, bytes int64) { w.change(scope, -1, -bytes) }

func (w *waiting) change(scope string, seats, bytes int64) {
	w.all.seats += seats
	w.all.bytes += bytes
	used := w.byScope[scope]
	used.seats += seats
	used.bytes += bytes
	w.byScope[scope] = used
	if used.seats == 0 {
		delete(w.byScope, scope)
	}
}

// A flight is the requests for one key that are here at the same time. It is
// guarded by flights.mu.
type flight struct {
	members int
	led     bool
	phase   phase
	final   bool // record can never change: nobody needs to ask again
	// asks counts the times that the store was asked, seen is the ask that
	// record comes from. While a run is on, record is its claim.
	asks, seen int
	record     Record
	failed     int       // the last ask that the store answered with an error; 0: none since it answered
	err        error     // that error
	started    time.Time // of the run
	waiting    int
	changed    chan struct{} // closed at the next change; nil if nobody looks out for it
	hurry      chan struct{} // a follower cannot use record, it is older than itself
}

// A seat is one request's place in a flight.
type seat struct {
	all    *flights
	id     ID
	f      *flight
	joined int // asks begun when it came: only later ones know what was true then
	leads  bool
	waits  bool
	scope  string
	bytes  int64 // of the request's body
}

// A view is what a seat sees of its flight at one moment.
type view struct {
	phase   phase
	led     bool
	final   bool
	fresh   bool // record was read after the seat was taken
	record  Record
	err     error // of the store, to an ask that began after the seat was taken
	started time.Time
	changed <-chan struct{}
}

func (a *flights) join(id ID) *seat {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.byID[id]
	if f == nil {
		f = &flight{hurry: make(chan struct{}, 1)}
		if a.byID == nil {
			a.byID = make(map[ID]*flight)
		}
		a.byID[id] = f
	}
	f.members++
	return &seat{all: a, id: id, f: f, joined: f.asks}
}

// leave gives the seat up. If it led, a follower takes the lead.
func (s *seat) leave() {
	s.update(func(f *flight) bool {
		f.members--
		s.stopWaiting(f)
		if f.members == 0 {
			s.all.forget(s.id, f)
		}
		if !s.leads {
			return false
		}
		f.led = false
		if f.phase != phaseIdle { // what the record said is no longer so
			f.phase, f.seen = phaseIdle, 0
		}
		return true
	})
}

// stopWaiting gives up the seat's place among those who wait. The caller holds flights.mu.
func (s *seat) stopWaiting(f *flight) {
	if s.waits {
		s.waits = false
		f.waiting--
		s.all.waiting.remove(s.scope, s.bytes)
	}
}

// lead makes the seat the leader if there is none.
func (s *seat) lead() bool {
	s.update(func(f *flight) bool {
		s.leads = !f.led && !f.final
		f.led = f.led || s.leads
		return false
	})
	return s.leads
}

// asking tells that the leader goes to the store.
func (s *seat) asking() {
	s.update(func(f *flight) bool {
		f.asks++
		f.phase = phaseAsking
		return false
	})
}

// found tells what the store said, to an ask that did not make the leader the
// owner, or to the completion of its run.
func (s *seat) found(rec Record) {
	s.update(func(f *flight) bool {
		f.phase, f.record, f.seen = phaseIdle, rec, f.asks
		f.failed, f.err = 0, nil
		if rec.final() {
			// Later requests must ask anew, or a key that is never idle would
			// never expire.
			f.final = true
			s.all.forget(s.id, f)
		}
		return true
	})
}

// failed tells that the store returned an error. Every follower that came before
// the leader asked takes it for its own. If they asked one after the other, each
// would wait for the store's timeout in its turn.
func (s *seat) failed(err error) {
	s.update(func(f *flight) bool {
		f.phase, f.failed, f.err = phaseIdle, f.asks, err
		return true
	})
}

// contend tells that the leader waits for a transaction that is deciding about the key.
func (s *seat) contend() {
	s.update(func(f *flight) bool {
		f.phase = phaseContended
		return true
	})
}

// running tells that the leader owns the key, as rec says.
func (s *seat) running(rec Record) {
	s.update(func(f *flight) bool {
		s.stopWaiting(f)
		f.phase, f.record, f.started = phaseRunning, rec, time.Now()
		f.failed, f.err = 0, nil
		return true
	})
}

// settling tells that the outcome may be visible from now on.
func (s *seat) settling() {
	s.update(func(f *flight) bool {
		f.phase = phaseSettling
		return false
	})
}

// hurry asks the leader to look again at once.
func (s *seat) hurry() {
	select {
	case s.f.hurry <- struct{}{}:
	default:
	}
}

// admit reports whether the seat may wait for a run, under the caps.
func (s *seat) admit(most waitCap) bool {
	s.update(func(f *flight) bool {
		if !s.waits && f.waiting < most.perKey && s.all.waiting.fits(s.scope, s.bytes, most) {
			s.waits = true
			f.waiting++
			s.all.waiting.add(s.scope, s.bytes)
		}
		return false
	})
	return s.waits
}

func (s *seat) view() (v view) {
	s.update(func(f *flight) bool {
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		v = view{
			phase: f.phase, led: f.led, final: f.final, fresh: f.seen > s.joined,
			record: f.record, started: f.started, changed: f.changed,
		}
		if f.failed > s.joined {
			v.err = f.err
		}
		return false
	})
	return v
}

// update calls change under the lock and wakes everybody if it returns true.
func (s *seat) update(change func(*flight) bool) {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	if change(s.f) && s.f.changed != nil {
		close(s.f.changed)
		s.f.changed = nil
	}
}

// forget takes f out of the map, where a later flight of the same key may have
// its place.
func (a *flights) forget(id ID, f *flight) {
	if a.byID[id] == f {
		delete(a.byID, id)
	}
}
