package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// A run with OneCommit sends nothing while its handler runs, so no record shows that its key is in use. Most requests
// that come meanwhile can wait for it. A request with another payload cannot: it must be told key-reused at once.
//
// A comparison with the plan's payload does not prove that. There may be a record with the follower's payload, and then
// the plan is the one to refuse. So the follower claims the key for the plan's run. From then on it is a run like any
// other, in every process: its handler runs once more, behind the claim.

// planning tells that the leader's handler runs before its claim.
func (m *member) planning(c *Call) {
	m.update(func(g *group) bool {
		g.phase, g.plan, g.claimed, g.started = phasePlanning, c, nil, time.Now()
		return true
	})
}

// planned tells that the plan of c is complete: no follower begins to claim its key any more. If a follower has begun,
// planned waits for the end of that. It returns the follower's claim; nil if there is none.
func (m *member) planned(c *Call) (claimed *finding) {
	for {
		var busy <-chan struct{}
		m.update(func(g *group) (changed bool) {
			if changed = g.phase != phaseContended && g.claimed == nil; changed {
				g.phase, g.plan = phaseContended, c
			}
			if g.claiming > 0 {
				busy = g.change()
			}
			claimed = g.claimed
			return changed
		})
		if busy == nil {
			return claimed
		}
		<-busy
	}
}

// committed tells that the plan has ended: it was committed, or a record was in its way, or the store failed.
func (m *member) committed() {
	m.update(func(g *group) bool {
		g.plan = nil
		return false
	})
}

// beginEarlyClaim returns the call whose key the follower claims. nil: nothing is being planned now.
func (m *member) beginEarlyClaim() (plan *Call) {
	m.update(func(g *group) bool {
		if g.phase == phasePlanning {
			plan = g.plan
			g.claiming++
		}
		return false
	})
	return plan
}

// endEarlyClaim gives the group the result of the claim. A zero finding says nothing.
func (m *member) endEarlyClaim(f finding) {
	m.update(func(g *group) bool {
		g.claiming--
		switch {
		case f.mine:
			g.claimed = &f
			g.phase, g.record = phaseRunning, f.record
		case isFinal(&f.record):
			m.all.finish(m.id, g, f.record)
		}
		return true
	})
}

// isPlanned reports whether this process is planning or committing a run of the key. No record shows that run.
func (gs *groups) isPlanned(id store.ID) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.byID[id]
	return g != nil && g.plan != nil
}

// claimEarly claims the key of the run that the leader plans. It returns true and the answer to c if there is a record
// that decides about c.
func (e *Engine) claimEarly(ctx context.Context, c *Call, m *member) (Outcome, bool) {
	plan := m.beginEarlyClaim()
	if plan == nil {
		return Outcome{}, false
	}
	var f finding
	defer func() { m.endEarlyClaim(f) }() // also if the store panics: the leader waits for it
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.StoreTimeout)
	defer cancel()
	found, err := e.claim(ctx, plan, false)
	if err != nil {
		if !errors.Is(err, store.ErrInProgress) && !errors.Is(err, store.ErrExpired) {
			e.observeStoreError(ctx, c, err)
		}
		return Outcome{}, false // the leader's commit meets the same, and the follower waits for it
	}
	f = found
	if f.mine {
		return Outcome{}, false // the group shows the run now
	}
	e.cache.put(&f.record)
	d := decide(&f.record, e.fingerprintFor(c, &f.record), e.cfg.MaxRecoveryAttempts)
	if d.action != actionReplay && d.action != actionRefuse {
		return Outcome{}, false
	}
	return e.answered(ctx, c, d, &f.record), true
}
