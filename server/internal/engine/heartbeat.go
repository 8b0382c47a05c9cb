package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A heartbeat renews the leases of a guard's runs. While there is no run it needs neither a goroutine nor a timer.
//
// It asks for all runs in one call, at a third of the lease. A run that this call
// left undecided joins the late ones: the heartbeat asks for these apart from the
// others, and more often. So one record that a transaction holds costs the other
// runs no time.
//
// An alarm ends the runs whose leases could not be renewed in time. It does not
// depend on the calls: one that hangs must not keep an owner working past the end
// of its lease.
//
// The timers are the heartbeat's, and not the runs'. A run that is short, as most
// are, touches none of them.
type heartbeat struct {
	engine *Engine

	mu      sync.Mutex
	runs    map[store.Token]*run
	keyless map[*run]struct{} // have no lease
	next    [2]nextCall       // by tier
	alarm   nextCall
	calls   sync.WaitGroup
}

// The two tiers of runs that are renewed together.
const (
	punctual = 0
	late     = 1
)

// A heldLease is the lease of one run. heartbeat.mu guards it.
type heldLease struct {
	since time.Time // when the run's present lease was asked for
	tier  int
	lost  bool // the store said so, and it does not change its mind
	ended bool // by the alarm
}

// A nextCall is the next call of one function of the heartbeat.
type nextCall struct {
	call  func()
	timer *time.Timer // nil until the first
	at    time.Time   // when it is due; zero: it is not
}

func newHeartbeat(e *Engine) *heartbeat {
	h := &heartbeat{engine: e, runs: make(map[store.Token]*run), keyless: make(map[*run]struct{})}
	for tier := range h.next {
		h.next[tier].call = func() { h.renewTier(tier) }
	}
	h.alarm.call = h.endOverdue
	return h
}

// interval is the time from one call for a tier to the next. A late run is asked
// for several times before its alarm.
func (h *heartbeat) interval(tier int) time.Duration {
	if tier == late {
		return h.engine.cfg.Lease / 12
	}
	return h.engine.cfg.Lease / 3
}

// margin is how long before the end of its lease an owner stops if it could not
// renew the lease. The handler needs that time to notice.
func (h *heartbeat) margin() time.Duration { return h.engine.cfg.Lease / 10 }

// hold returns how long an owner may go on after its lease was asked for, by this
// process's monotonic clock. The store granted the lease later than that, so a
// difference between the clocks does not matter.
func (h *heartbeat) hold() time.Duration { return h.engine.cfg.Lease - h.margin() }

func (h *heartbeat) add(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[r.owner.Token] = r
	r.lease.since = r.asked
	h.alarm.schedule(r.asked.Add(h.hold()))
	h.next[punctual].schedule(r.asked.Add(h.interval(punctual)))
}

func (h *heartbeat) remove(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, r.owner.Token)
	if len(h.runs) == 0 {
		h.alarm.stop()
		for i := range h.next {
			h.next[i].stop()
		}
	}
}

// schedule makes the call due at that time, unless it is due earlier. The time counts from when a lease was asked for:
// a claim that took long has left little of its lease. The caller holds heartbeat.mu.
func (n *nextCall) schedule(at time.Time) {
	if !n.at.IsZero() && !at.Before(n.at) {
		return
	}
	n.at = at
	if n.timer == nil {
		n.timer = time.AfterFunc(time.Until(at), n.call)
		return
	}
	n.timer.Reset(time.Until(at))
}

// stop makes sure that no call follows. The caller holds heartbeat.mu.
func (n *nextCall) stop() {
	if n.timer != nil {
		n.timer.Stop()
	}
	n.at = time.Time{}
}

// isDue returns false to a call whose timer was stopped or reset too late. The caller holds heartbeat.mu.
func (n *nextCall) isDue() bool { return !n.at.IsZero() && !time.Now().Before(n.at) }

// schedule makes the next call for each tier due that has runs. The caller holds mu.
//
// A punctual run is due a fixed time after its lease was asked for, and not after the answer came. A store that
// answers late leaves little of the lease.
func (h *heartbeat) schedule() {
	now := time.Now()
	for _, r := range h.runs {
		switch l := &r.lease; {
		case l.lost:
		case l.tier == punctual:
			h.next[punctual].schedule(l.since.Add(h.interval(punctual)))
		default:
			h.next[late].schedule(now.Add(h.interval(late)))
		}
	}
}

// endOverdue ends the runs whose leases could not be renewed in time.
func (h *heartbeat) endOverdue() { loseAll(h.takeOverdue()) }

// takeOverdue returns the runs whose leases could not be renewed in time, and sets the alarm for the others.
func (h *heartbeat) takeOverdue() (overdue []*run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alarm.stop()
	for _, r := range h.runs {
		switch end := r.lease.since.Add(h.hold()); {
		case r.lease.ended:
		case time.Now().Before(end):
			h.alarm.schedule(end)
		default:
			r.lease.ended = true
			overdue = append(overdue, r)
		}
	}
	return overdue
}

// renewTier renews the leases of a tier, and schedules the next calls. The Observer hears of it only then: it may take
// its time, or shut the guard down.
func (h *heartbeat) renewTier(tier int) {
	owners, at, ok := h.takeDue(tier)
	if !ok {
		return
	}
	var lost []*run
	var err error
	if len(owners) > 0 {
		var got store.Renewal
		asked := time.Now()
		got, err = h.renew(owners)
		lost = h.apply(owners, got, asked)
	}
	h.scheduleAfter(tier, at)
	h.calls.Done()
	loseAll(lost)
	if err != nil {
		h.engine.observe(context.Background(), store.Event{Kind: store.EventStoreError, Err: err})
	}
}

// scheduleAfter is schedule behind the call for a tier that was due at that time.
func (h *heartbeat) scheduleAfter(tier int, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := &h.next[tier]; c.at.Equal(at) { // until now, so that no other call for the tier began
		c.at = time.Time{}
	}
	h.schedule()
}

// renewNow renews the lease of one run, apart from its tier. It blocks until the store answers, for a third of a lease
// at most.
func (h *heartbeat) renewNow(r *run) {
	owners, asked := []store.Owner{r.owner}, time.Now()
	got, err := h.renew(owners)
	loseAll(h.apply(owners, got, asked))
	if err != nil {
		h.engine.observe(r.ctx, store.Event{Kind: store.EventStoreError, Route: r.call.Route.Name, ID: r.owner.ID, Err: err})
	}
}

func (h *heartbeat) renew(owners []store.Owner) (store.Renewal, error) {
	lease := h.engine.cfg.Lease
	ctx, cancel := context.WithTimeout(context.Background(), lease/3)
	defer cancel()
	return h.engine.store.Renew(ctx, owners, lease)
}

// takeDue returns the owners of a tier whose leases are to be renewed, and the time at which this call was due. It returns
// false if it is not due. Else the caller calls h.calls.Done.
//
// A run that was claimed a moment ago waits for the next call. Most runs end
// before that, and are never renewed.
func (h *heartbeat) takeDue(tier int) (owners []store.Owner, at time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &h.next[tier]
	if !c.isDue() {
		return nil, time.Time{}, false
	}
	h.calls.Add(1)
	for _, r := range h.runs {
		if l := &r.lease; l.tier == tier && !l.lost && time.Since(l.since) >= h.engine.cfg.Lease/12 {
			owners = append(owners, r.owner)
		}
	}
	return owners, c.at, true
}

// apply applies a call's result to each of its owners alone. It sets the alarm of a
// renewed run anew, and returns the runs that lost their leases. The undecided runs are late.
func (h *heartbeat) apply(owners []store.Owner, got store.Renewal, asked time.Time) (lost []*run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range owners {
		if r, ok := h.runOf(o); ok {
			r.lease.tier = late
		}
	}
	for _, o := range got.Renewed {
		if r, ok := h.runOf(o); ok {
			r.lease.tier, r.lease.since = punctual, asked // the alarm looks at it when it goes off
			r.durable.Store(true)                         // the renewal is, and it came after the claim
		}
	}
	for _, o := range got.Lost {
		if r, ok := h.runOf(o); ok {
			r.lease.tier, r.lease.lost = punctual, true
			lost = append(lost, r)
		}
	}
	return lost
}

// runOf returns the run of an owner, unless it was settled meanwhile. The caller
// holds mu.
func (h *heartbeat) runOf(o store.Owner) (*run, bool) {
	r, ok := h.runs[o.Token]
	return r, ok && r.owner == o
}

// wait waits for the calls that have begun. It is called when there is no run
// any more, so that no call can begin.
func (h *heartbeat) wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.calls.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-ended: // both happened
		return nil
	default:
		return fmt.Errorf("server: shutdown: a renewal has not ended: %w", context.Cause(ctx))
	}
}

func (h *heartbeat) cancelAll(cause error) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		r.cancel(cause)
	}
	for r := range h.keyless {
		r.cancel(cause)
	}
	return len(h.runs) + len(h.keyless)
}

// addKeyless adds a run that only a shutdown can end. The caller calls remove at its end.
func (h *heartbeat) addKeyless(r *run) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keyless[r] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.keyless, r)
	}
}
