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
// Each run also has its own alarm. A renewal that hangs must not keep an owner
// working past the end of its lease.
type heartbeat struct {
	engine *Engine

	mu    sync.Mutex
	runs  map[store.Token]*heldLease
	next  [2]nextCall // by tier
	calls sync.WaitGroup
}

// The two tiers of runs that are renewed together.
const (
	punctual = 0
	late     = 1
)

// A heldLease is the lease of one run.
type heldLease struct {
	run   *run
	alarm *time.Timer
	since time.Time // when the run's present lease was asked for
	tier  int
	lost  bool // the store said so, and it does not change its mind
}

// A nextCall is the next renewal of one tier.
type nextCall struct {
	timer *time.Timer // nil while nothing is due
	at    time.Time   // when it goes off
	round int         // tells a call that its timer was stopped too late
}

func newHeartbeat(e *Engine) *heartbeat {
	return &heartbeat{engine: e, runs: make(map[store.Token]*heldLease)}
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

// hold returns how long an owner may go on if its lease was asked for at asked,
// by this process's monotonic clock. The store granted the lease later than
// that, so a difference between the clocks does not matter.
func (h *heartbeat) hold(asked time.Time) time.Duration {
	return h.engine.cfg.Lease - h.margin() - time.Since(asked)
}

func (h *heartbeat) add(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs[r.owner.Token] = &heldLease{run: r, since: r.asked, alarm: time.AfterFunc(h.hold(r.asked), r.lose)}
	h.scheduleAt(punctual, r.asked.Add(h.interval(punctual)))
}

func (h *heartbeat) remove(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l, ok := h.runs[r.owner.Token]; ok {
		l.alarm.Stop()
		delete(h.runs, r.owner.Token)
	}
	if len(h.runs) == 0 {
		for i := range h.next {
			h.next[i].stop()
		}
	}
}

// stop makes sure that no call follows. The caller holds heartbeat.mu.
func (c *nextCall) stop() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
		c.round++
	}
}

// schedule makes the next call for each tier due that has runs. The caller holds mu.
//
// A punctual run is due a fixed time after its lease was asked for, and not after the answer came. A store that
// answers late leaves little of the lease.
func (h *heartbeat) schedule() {
	now := time.Now()
	var due [2]time.Time
	for _, l := range h.runs {
		at := now.Add(h.interval(l.tier))
		switch {
		case l.lost:
			continue
		case l.tier == punctual:
			at = l.since.Add(h.interval(punctual))
		}
		if next := &due[l.tier]; next.IsZero() || at.Before(*next) {
			*next = at
		}
	}
	for tier, at := range due {
		if !at.IsZero() {
			h.scheduleAt(tier, at)
		}
	}
}

// scheduleAt makes the next call for a tier due at that time, unless it is due
// earlier. The time counts from when a lease was asked for: a claim that took
// long has left little of its lease. The caller holds mu.
func (h *heartbeat) scheduleAt(tier int, at time.Time) {
	c := &h.next[tier]
	if c.timer != nil && !at.Before(c.at) {
		return
	}
	c.stop()
	c.round++
	round := c.round
	c.at = at
	c.timer = time.AfterFunc(time.Until(at), func() { h.renewTier(tier, round) })
}

// renewTier renews the leases of a tier, and schedules the next calls.
func (h *heartbeat) renewTier(tier, round int) {
	owners, ok := h.due(tier, round)
	if !ok {
		return
	}
	defer h.calls.Done()
	if len(owners) > 0 {
		asked := time.Now()
		got, err := h.renew(owners)
		h.apply(owners, got, asked)
		if err != nil {
			h.engine.observe(context.Background(), Event{Kind: EventStoreError, Err: err})
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if round == h.next[tier].round {
		h.next[tier].timer = nil // it went off
	}
	h.schedule()
}

func (h *heartbeat) renew(owners []store.Owner) (store.Renewal, error) {
	lease := h.engine.cfg.Lease
	ctx, cancel := context.WithTimeout(context.Background(), lease/3)
	defer cancel()
	return h.engine.store.Renew(ctx, owners, lease)
}

// due returns the owners of a tier whose leases are to be renewed. It returns
// false if the round is over. Else the caller calls h.calls.Done.
//
// A run that was claimed a moment ago waits for the next call. Most runs end
// before that, and are never renewed.
func (h *heartbeat) due(tier, round int) ([]store.Owner, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if round != h.next[tier].round {
		return nil, false
	}
	h.calls.Add(1)
	var owners []store.Owner
	for _, l := range h.runs {
		if l.tier == tier && !l.lost && time.Since(l.since) >= h.engine.cfg.Lease/12 {
			owners = append(owners, l.run.owner)
		}
	}
	return owners, true
}

// apply applies a call's result to each of its owners alone. It sets the alarm of a
// renewed run anew, and ends a run that lost its lease. The undecided runs are late.
func (h *heartbeat) apply(owners []store.Owner, got store.Renewal, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range owners {
		if l, ok := h.runs[o.Token]; ok {
			l.tier = late
		}
	}
	for _, o := range got.Renewed {
		if l, ok := h.owned(o); ok {
			l.tier, l.since = punctual, asked
			l.alarm.Reset(h.hold(asked))
		}
	}
	for _, o := range got.Lost {
		if l, ok := h.owned(o); ok {
			l.tier, l.lost = punctual, true
			l.run.lose()
		}
	}
}

// owned returns the run of an owner, unless it was settled meanwhile. The caller
// holds mu.
func (h *heartbeat) owned(o store.Owner) (*heldLease, bool) {
	l, ok := h.runs[o.Token]
	return l, ok && l.run.owner == o
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
		return fmt.Errorf("server: shutdown: a renewal has not ended: %w", context.Cause(ctx))
	}
}

func (h *heartbeat) cancelAll(cause error) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.runs {
		l.run.cancel(cause)
	}
	return len(h.runs)
}
