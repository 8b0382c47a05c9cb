package engine

import (
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A phase is what the leader of a group is doing.
type phase uint8

const (
	phaseIdle      phase = iota // between two asks, or there is no leader
	phaseAsking                 // the leader is at the store
	phaseRunning                // the leader's handler runs
	phaseSettling               // the run is being recorded: it may be visible elsewhere already
	phaseContended              // the leader waits for a transaction that is deciding about the key
)

// groups are the requests of this process, by key. One of the requests for a key leads: only it goes to the store,
// and only it runs. The others follow, and get their answer from the leader.
type groups struct {
	mu      sync.Mutex
	byID    map[store.ID]*group
	waiting waiting
}

// A group is the requests for one key that are here at the same time. It is
// guarded by groups.mu.
type group struct {
	members int
	led     bool
	phase   phase
	final   bool // record can never change: no further ask is needed
	// asks counts the calls to the store; seen is the number of the call that
	// returned record. During a run, record is its claim.
	asks, seen int
	record     store.Record
	failed     int       // the last ask that the store answered with an error; 0: none since it answered
	err        error     // that error
	started    time.Time // of the run
	waiting    int
	changed    chan struct{} // closed at the next change; nil if nobody waits for it
	askNow     chan struct{} // a follower cannot use record: it is older than the follower; nil until somebody needs it
}

// A member is one request's place in a group.
type member struct {
	all    *groups
	id     store.ID
	g      *group
	joined int // asks begun when it came: only later ones know what was true then
	leads  bool
	waits  bool
	scope  string
	bytes  int64 // of the request's body
}

// A view is what a member sees of its group at one moment.
type view struct {
	phase   phase
	led     bool
	final   bool
	fresh   bool // record was read after the member was taken
	record  store.Record
	err     error // of the store, to an ask that began after the member was taken
	started time.Time
	changed <-chan struct{}
}

func (gs *groups) join(id store.ID) *member {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.byID[id]
	if g == nil {
		g = new(group)
		if gs.byID == nil {
			gs.byID = make(map[store.ID]*group)
		}
		gs.byID[id] = g
	}
	g.members++
	return &member{all: gs, id: id, g: g, joined: g.asks}
}

// leave gives the member up. If it led, a follower takes the lead.
func (m *member) leave() {
	m.update(func(g *group) bool {
		g.members--
		m.stopWaiting(g)
		if g.members == 0 {
			m.all.forget(m.id, g)
		}
		if !m.leads {
			return false
		}
		g.led = false
		if g.phase != phaseIdle { // the record is out of date
			g.phase, g.seen = phaseIdle, 0
		}
		return true
	})
}

// stopWaiting gives up the member's place among the waiters. The caller holds groups.mu.
func (m *member) stopWaiting(g *group) {
	if m.waits {
		m.waits = false
		g.waiting--
		m.all.waiting.change(m.scope, -1, -m.bytes)
	}
}

// lead makes the member the leader if there is none.
func (m *member) lead() bool {
	m.update(func(g *group) bool {
		m.leads = !g.led && !g.final
		g.led = g.led || m.leads
		return false
	})
	return m.leads
}

// beginAsk tells the group that the leader goes to the store.
func (m *member) beginAsk() {
	m.update(func(g *group) bool {
		g.asks++
		g.phase = phaseAsking
		return false
	})
}

// setRecord gives the group the store's record. The record comes from an ask that
// did not make the leader the owner, or from the completion of the leader's
// run.
func (m *member) setRecord(rec store.Record) {
	m.update(func(g *group) bool {
		g.phase, g.record, g.seen = phaseIdle, rec, g.asks
		g.failed, g.err = 0, nil
		if isFinal(&rec) {
			m.all.finish(m.id, g, rec)
		}
		return true
	})
}

// setError tells the group that the store returned an error. It is also the error of every
// follower that came before the leader asked. If the followers asked one after
// the other, each would wait for the store's timeout.
func (m *member) setError(err error) {
	m.update(func(g *group) bool {
		g.phase, g.failed, g.err = phaseIdle, g.asks, err
		return true
	})
}

// contend tells that the leader waits for a transaction that is deciding about the key.
func (m *member) contend() {
	m.update(func(g *group) bool {
		g.phase = phaseContended
		return true
	})
}

// beginRun tells the group that the leader owns the key, as rec says.
func (m *member) beginRun(rec store.Record) {
	m.update(func(g *group) bool {
		m.stopWaiting(g)
		g.phase, g.record, g.started = phaseRunning, rec, time.Now()
		g.failed, g.err = 0, nil
		return true
	})
}

// beginSettle tells the group that the outcome may be visible from now on.
func (m *member) beginSettle() {
	m.update(func(g *group) bool {
		g.phase = phaseSettling
		return false
	})
}

// askNow has the leader ask the store again at once.
func (m *member) askNow() {
	select {
	case m.askRequests() <- struct{}{}:
	default:
	}
}

// askRequests returns the channel of the followers' requests to ask the store again.
func (m *member) askRequests() (requests chan struct{}) {
	m.update(func(g *group) bool {
		if g.askNow == nil {
			g.askNow = make(chan struct{}, 1)
		}
		requests = g.askNow
		return false
	})
	return requests
}

// admit reports whether the member may wait for a run, under the caps.
func (m *member) admit(most WaiterLimits) bool {
	m.update(func(g *group) bool {
		if !m.waits && g.waiting < most.PerKey && m.all.waiting.fits(m.scope, m.bytes, most) {
			m.waits = true
			g.waiting++
			m.all.waiting.change(m.scope, 1, m.bytes)
		}
		return false
	})
	return m.waits
}

func (m *member) view() (v view) {
	m.update(func(g *group) bool {
		v = view{
			phase: g.phase, led: g.led, final: g.final, fresh: g.seen > m.joined,
			record: g.record, started: g.started, changed: g.change(),
		}
		if g.failed > m.joined {
			v.err = g.err
		}
		return false
	})
	return v
}

// update calls change under the lock and wakes everybody if it returns true.
func (m *member) update(change func(*group) bool) {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	if change(m.g) && m.g.changed != nil {
		close(m.g.changed)
		m.g.changed = nil
	}
}

// change returns the channel that the next change closes. The caller holds groups.mu.
func (g *group) change() <-chan struct{} {
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.changed
}

// finish gives g a record that can never change. Later requests must ask again: otherwise a key that is never idle would
// never expire. The caller holds groups.mu.
func (gs *groups) finish(id store.ID, g *group, rec store.Record) {
	g.final, g.record = true, rec
	gs.forget(id, g)
}

// forget takes g out of the map, where a later group of the same key may have
// its place.
func (gs *groups) forget(id store.ID, g *group) {
	if gs.byID[id] == g {
		delete(gs.byID, id)
	}
}
