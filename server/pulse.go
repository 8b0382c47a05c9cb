package server

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A pulse renews the leases of a guard's runs. While nothing runs it has no
// goroutine and no timer.
//
// It asks for all runs in one call, at a third of the lease. A run that this call
// left undecided joins the late ones: the pulse asks for these apart from the
// others, and more often. So one record that a transaction holds costs the other
// runs no time.
//
// Each run also has its own alarm. A renewal that hangs must not keep an owner
// working past the end of its lease.
type pulse struct {
	guard *Guard

	mu    sync.Mutex
	runs  map[Token]*beating
	beats [2]beat // by beating.late
	calls sync.WaitGroup
}

// The two groups of runs that are renewed together.
const (
	punctual = 0
	late     = 1
)

type beating struct {
	run   *run
	alarm *time.Timer
	since time.Time // when the lease was asked for that the run has
	group int
	lost  bool // the store said so, and it does not change its mind
}

// A beat is the next call for one group.
type beat struct {
	timer *time.Timer // nil while nothing is due
	at    time.Time   // when it goes off
	round int         // tells a call that its timer was stopped too late
}

func newPulse(g *Guard) *pulse { return &pulse{guard: g, runs: make(map[Token]*beating)} }

// interval is the time from one call for a group to the next. A late run is asked
// for several times before its alarm.
func (p *pulse) interval(group int) time.Duration {
	if group == late {
		return p.guard.cfg.Lease / 12
	}
	return p.guard.cfg.Lease / 3
}

// margin is how long before the end of its lease an owner stops that could not
// renew it. The handler needs that time to notice.
func (p *pulse) margin() time.Duration { return p.guard.cfg.Lease / 10 }

// hold returns how long an owner may go on whose lease was asked for at asked,
// by this process's monotonic clock. The store granted it later than that, so
// that no difference between the clocks counts.
func (p *pulse) hold(asked time.Time) time.Duration {
	return p.guard.cfg.Lease - p.margin() - time.Since(asked)
}

func (p *pulse) add(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[r.owner.Token] = &beating{run: r, since: r.asked, alarm: time.AfterFunc(p.hold(r.asked), r.lose)}
	p.scheduleAt(punctual, r.asked.Add(p.interval(punctual)))
}

func (p *pulse) remove(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.runs[r.owner.Token]; ok {
		b.alarm.Stop()
		delete(p.runs, r.owner.Token)
	}
	if len(p.runs) == 0 {
		for i := range p.beats {
			p.beats[i].stop()
		}
	}
}

// stop makes sure that no call follows. The caller holds pulse.mu.
func (b *beat) stop() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
		b.round++
	}
}

// schedule makes the next call for each group due that has runs. The caller holds mu.
//
// A punctual run is due a while after its lease was asked for, and not after the answer
// came: a store that answers late has left little of the lease.
func (p *pulse) schedule() {
	now := time.Now()
	var due [2]time.Time
	for _, b := range p.runs {
		at := now.Add(p.interval(b.group))
		switch {
		case b.lost:
			continue
		case b.group == punctual:
			at = b.since.Add(p.interval(punctual))
		}
		if next := &due[b.group]; next.IsZero() || at.Before(*next) {
			*next = at
		}
	}
	for group, at := range due {
		if !at.IsZero() {
			p.scheduleAt(group, at)
		}
	}
}

// scheduleAt makes the next call for a group due at that time, unless it is due
// earlier. The time counts from when a lease was asked for: a claim that took
// long has left little of its lease. The caller holds mu.
func (p *pulse) scheduleAt(group int, at time.Time) {
	b := &p.beats[group]
	if b.timer != nil && !at.Before(b.at) {
		return
	}
	b.stop()
	b.round++
	round := b.round
	b.at = at
	b.timer = time.AfterFunc(time.Until(at), func() { p.beat(group, round) })
}

// beat renews the leases of a group, and schedules the next calls.
func (p *pulse) beat(group, round int) {
	owners, ok := p.due(group, round)
	if !ok {
		return
	}
	defer p.calls.Done()
	if len(owners) > 0 {
		asked := time.Now()
		got, err := p.renew(owners)
		p.apply(owners, got, asked)
		if err != nil {
			p.guard.observe(Event{Kind: EventStoreError, Err: err})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if round == p.beats[group].round {
		p.beats[group].timer = nil // it went off
	}
	p.schedule()
}

func (p *pulse) renew(owners []Owner) (Renewal, error) {
	lease := p.guard.cfg.Lease
	ctx, cancel := context.WithTimeout(context.Background(), lease/3)
	defer cancel()
	return p.guard.store.Renew(ctx, owners, lease)
}

// due returns the owners of a group whose leases are to be renewed. It returns
// false if the round is over. Else the caller calls p.calls.Done.
//
// A run that was claimed a moment ago waits for the next call. Most runs end
// before that, and are never renewed.
func (p *pulse) due(group, round int) ([]Owner, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if round != p.beats[group].round {
		return nil, false
	}
	p.calls.Add(1)
	var owners []Owner
	for _, b := range p.runs {
		if b.group == group && !b.lost && time.Since(b.since) >= p.guard.cfg.Lease/12 {
			owners = append(owners, b.run.owner)
		}
	}
	return owners, true
}

// apply applies a call's result to each of its owners alone. It sets the alarm of a
// renewed run anew, and ends a run that lost its lease. The undecided runs are late.
func (p *pulse) apply(owners []Owner, got Renewal, asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range owners {
		if b, ok := p.runs[o.Token]; ok {
			b.group = late
		}
	}
	for _, o := range got.Renewed {
		if b, ok := p.owned(o); ok {
			b.group, b.since = punctual, asked
			b.alarm.Reset(p.hold(asked))
		}
	}
	for _, o := range got.Lost {
		if b, ok := p.owned(o); ok {
			b.group, b.lost = punctual, true
			b.run.lose()
		}
	}
}

// owned returns the run of an owner, unless it was settled meanwhile. The caller
// holds mu.
func (p *pulse) owned(o Owner) (*beating, bool) {
	b, ok := p.runs[o.Token]
	return b, ok && b.run.owner == o
}

// wait waits for the calls that have begun. It is for when nothing runs any more,
// so that none can begin.
func (p *pulse) wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.calls.Wait()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("server: shutdown: a renewal has not ended: %w", context.Cause(ctx))
	}
}

func (p *pulse) cancelAll(cause error) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.runs {
		b.run.cancel(cause)
	}
	return len(p.runs)
}
