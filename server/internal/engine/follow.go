package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

// A step is what a follower does next.
type step uint8

const (
	stepAnswer step = iota + 1 // the decision is its answer
	stepFail                   // the store's error is its answer
	stepLead                   // there is no leader: try to lead
	stepHold                   // a short store call is running: wait for it
	stepWait                   // a run is going on: wait as long as the call may
)

// nextStep returns a follower's next step for a view. It is pure.
func nextStep(v view, fp store.Fingerprint, maxRecoveryAttempts int) (step, decision) {
	d := decide(&v.record, fp, maxRecoveryAttempts)
	switch {
	case v.final:
		return stepAnswer, d
	case errors.Is(v.err, store.ErrInProgress):
		return stepWait, d // the leader does not wait any more, for reasons of its own
	case v.err != nil:
		return stepFail, d
	case v.phase == phaseSettling:
		// The outcome may be visible to others: in-progress would be wrong.
		return stepHold, d
	case v.phase == phaseContended:
		return stepWait, d
	case v.phase == phaseRunning && d.action == actionRefuse:
		return stepAnswer, d // another fingerprint than the run's
	case v.phase == phaseRunning:
		return stepWait, d
	case v.fresh && (d.action == actionRefuse || d.action == actionReplay):
		return stepAnswer, d
	case v.fresh && d.action == actionWait:
		return stepWait, d
	case !v.led:
		return stepLead, d
	default:
		return stepHold, d
	}
}

// follow waits for the leader. It returns false if there is no leader any more.
func (e *Engine) follow(ctx context.Context, c *Call, m *member, p *waitBudget) (Outcome, bool) {
	timer := time.NewTimer(p.left())
	defer timer.Stop()
	for {
		v := m.view()
		step, d := nextStep(v, e.fingerprintFor(c, &v.record), e.cfg.MaxRecoveryAttempts)
		var expired <-chan time.Time
		switch step {
		case stepAnswer:
			return e.toOutcome(ctx, c, d, &v.record), true
		case stepFail:
			return claimRefusal(v.err, false), true
		case stepLead:
			return Outcome{}, false
		case stepWait:
			switch {
			case !p.start(e, m):
				return e.busyView(v), true
			case !v.led:
				return Outcome{}, false
			}
			expired = timer.C
		case stepHold:
			if v.phase == phaseIdle {
				m.askNow()
			}
		}
		select {
		case <-v.changed:
		case <-expired:
			p.none = true
		case <-e.drain.closing:
			return interruptedRefusal(), true
		case <-ctx.Done():
			return e.busyView(v), true
		}
	}
}

// busyRefusal refuses a duplicate of a run in another process.
func (e *Engine) busyRefusal(rec *store.Record) Outcome {
	return Outcome{Code: wire.InProgress, RetryAfter: RetryAfter(runAge(rec, e.cfg.Lease), rec.LeaseLeft())}
}

// contendedRefusal refuses a call whose key another transaction is deciding about.
func contendedRefusal() Outcome {
	return Outcome{Code: wire.InProgress, RetryAfter: contendedRetryAfter}
}

// contendedRetryAfter is about how long the transaction of an undo takes.
const contendedRetryAfter = time.Second

// busyView refuses a duplicate, from the group's view of the run.
func (e *Engine) busyView(v view) Outcome {
	if v.phase == phaseContended || v.err != nil {
		return contendedRefusal()
	}
	if v.phase == phaseRunning || v.phase == phaseSettling {
		return Outcome{Code: wire.InProgress, RetryAfter: RetryAfter(time.Since(v.started), e.cfg.Lease)}
	}
	return e.busyRefusal(&v.record)
}

// waiting counts the places of the calls that wait for a run, of all keys.
type waiting struct {
	all     room
	byScope map[string]room // a scope without places is not in it
}

// A room is a number of places, and the bytes of their bodies.
type room struct{ places, bytes int64 }

// holds reports whether one more place, with the given bytes, is within r.
func (r room) holds(used room, bytes int64) bool {
	return used.places < r.places && bytes <= r.bytes-used.bytes
}

// WaiterLimits is how many calls may wait, and with how many bytes.
type WaiterLimits struct {
	PerKey        int
	Places, Bytes int64 // of all keys
	LeastBytes    int64 // bytes that one scope may take, if they are free
}

// share is the part of c that one scope may take.
func (w WaiterLimits) share(scope string) room {
	return room{ShareOf(scope, w.Places, 1), ShareOf(scope, w.Bytes, w.LeastBytes)}
}

func (w *waiting) fits(scope string, bytes int64, most WaiterLimits) bool {
	return room{most.Places, most.Bytes}.holds(w.all, bytes) && most.share(scope).holds(w.byScope[scope], bytes)
}

// change adds places and bytes of a scope, or takes them away.
func (w *waiting) change(scope string, places, bytes int64) {
	if w.byScope == nil {
		w.byScope = make(map[string]room)
	}
	w.all.places += places
	w.all.bytes += bytes
	used := w.byScope[scope]
	used.places += places
	used.bytes += bytes
	w.byScope[scope] = used
	if used.places == 0 {
		delete(w.byScope, scope)
	}
}

// Unscoped is the scope of the callers of a guard that does not distinguish callers.
const Unscoped = "unscoped"

// ShareOf is the part of a common resource that one scope may take: a quarter, and at least the given minimum.
// Callers of an unscoped guard share all of it.
func ShareOf(scope string, all, least int64) int64 {
	if scope == Unscoped {
		return all
	}
	return min(all, max(all/4, least))
}
