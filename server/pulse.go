package server

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A pulse renews the leases of a guard's runs, all in one statement, at a
// third of the lease. While nothing runs it has no goroutine and no timer.
//
// Beside it each run has its own alarm: a renewal that hangs must not keep an
// owner working past the end of its lease.
type pulse struct {
	guard *Guard

	mu    sync.Mutex
	runs  map[Token]beating
	next  *time.Timer // nil while nothing runs
	round int         // tells a beat that its timer was stopped too late
}

type beating struct {
	run   *run
	alarm *time.Timer
}

func newPulse(g *Guard) *pulse { return &pulse{guard: g, runs: make(map[Token]beating)} }

// margin is how long before the end of its lease an owner stops that could not
// renew it: time for the handler to notice.
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
	p.runs[r.owner.Token] = beating{run: r, alarm: time.AfterFunc(p.hold(r.asked), r.lose)}
	if p.next == nil {
		p.schedule(p.guard.cfg.Lease / 3)
	}
}

func (p *pulse) remove(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := p.runs[r.owner.Token]; ok {
		b.alarm.Stop()
		delete(p.runs, r.owner.Token)
	}
	if len(p.runs) == 0 && p.next != nil {
		p.next.Stop()
		p.next = nil
	}
}

// schedule sets the next beat. The caller holds mu.
func (p *pulse) schedule(d time.Duration) {
	p.round++
	round := p.round
	p.next = time.AfterFunc(d, func() { p.beat(round) })
}

// beat renews every run's lease, and schedules the next beat.
func (p *pulse) beat(round int) {
	owners := p.owners(round)
	if len(owners) == 0 {
		return
	}
	lease := p.guard.cfg.Lease
	ctx, cancel := context.WithTimeout(context.Background(), lease/3)
	defer cancel()
	asked := time.Now()
	lost, err := p.guard.store.Renew(ctx, owners, lease)
	next := lease / 3
	if err != nil {
		p.guard.observe(Event{Kind: EventStoreError, Err: err})
		next = lease / 12 // try again while there is lease left
	} else {
		p.renewed(owners, lost, asked)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if round == p.round && len(p.runs) > 0 {
		p.schedule(next)
	}
}

// owners returns who runs, or nothing if the round is over.
func (p *pulse) owners(round int) []Owner {
	p.mu.Lock()
	defer p.mu.Unlock()
	if round != p.round {
		return nil
	}
	owners := make([]Owner, 0, len(p.runs))
	for _, b := range p.runs {
		owners = append(owners, b.run.owner)
	}
	return owners
}

// renewed sets the alarms anew, and ends the runs that are no owners any more.
func (p *pulse) renewed(owners, lost []Owner, asked time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range owners {
		b, ok := p.runs[o.Token]
		switch {
		case !ok: // settled meanwhile
		case slices.Contains(lost, o):
			b.run.lose()
		default:
			b.alarm.Reset(p.hold(asked))
		}
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
