package saga

import (
	"time"

	"github.com/fanonce/fanonce/retry"
)

// A decision is what follows from a progress.
type decision struct {
	start   []task   // calls to begin now
	status  Status   // where the saga goes; 0: it stays
	cause   *Failure // with Compensating
	stuckOn *Failure // with Stuck
	wake    time.Time
}

// sooner makes wake t, if that is before it and still to come.
func (d *decision) sooner(t, now time.Time) {
	if now.Before(t) && (d.wake.IsZero() || t.Before(d.wake)) {
		d.wake = t
	}
}

// decide returns what follows from g at the time now. It is pure, and is the
// whole policy: every engine, before or after a crash, decides alike.
func (g *progress) decide(now time.Time) decision {
	if g.status == Compensating {
		return g.backward(now)
	}
	return g.onward(now)
}

// onward decides for a saga that goes forward.
func (g *progress) onward(now time.Time) decision {
	committed := g.committed()
	failed := g.failure(now)
	if !committed {
		if failed != nil && !g.pivotOpen() {
			return decision{status: Compensating, cause: failed}
		}
		if over := g.over(now); over != nil && !g.pivotOpen() {
			return decision{status: Compensating, cause: over}
		}
	}
	var d decision
	done := true
	for _, s := range g.plan.steps {
		l := &g.forward[s.index]
		done = done && l.completed()
		if l.final || l.running || l.lost || !g.enabled(s) || g.spent(s, now) {
			continue
		}
		d.sooner(g.limit(s), now)
		g.offer(&d, task{s, false}, now)
	}
	if !committed {
		d.sooner(g.deadline, now)
	}
	switch {
	case done:
		d.status = Completed
	case g.running == 0 && len(d.start) == 0 && failed != nil && !g.waiting(now):
		d.status, d.stuckOn = Stuck, failed
	}
	return d
}

// offer makes d begin t, or wake when t may begin.
func (g *progress) offer(d *decision, t task, now time.Time) {
	switch l := g.leg(t); {
	case now.Before(l.retryAt):
		d.sooner(l.retryAt, now)
	case g.running+len(d.start) < g.plan.maxParallel:
		d.start = append(d.start, t)
	}
}

// late reports whether the saga's deadline has passed, if it has one.
func (g *progress) late(now time.Time) bool { return !g.deadline.IsZero() && !now.Before(g.deadline) }

// over returns why a saga that could still be undone is to be; nil if it is not.
func (g *progress) over(now time.Time) *Failure {
	switch {
	case g.cancel:
		return &Failure{Reason: ReasonCancel}
	case g.late(now):
		return &Failure{Reason: ReasonTimeout}
	}
	return nil
}

// pivotOpen reports whether the pivot may have had its effect, and nobody knows
// yet. Until that is known nothing is undone.
func (g *progress) pivotOpen() bool {
	if g.plan.pivot == nil {
		return false
	}
	l := &g.forward[g.plan.pivot.index]
	return l.running || l.maybe && !l.final
}

// enabled reports whether a step's time has come.
func (g *progress) enabled(s *step) bool {
	for _, b := range s.before {
		if !g.forward[b].completed() {
			return false
		}
	}
	return !g.starved(s)
}

// starved reports whether a step needs an output that nobody has any more.
func (g *progress) starved(s *step) bool {
	for _, b := range s.data {
		if l := &g.forward[b]; l.completed() && l.result == nil {
			return true
		}
	}
	return false
}

// limit returns when a step has failed that has not ended by then; zero: never.
func (g *progress) limit(s *step) time.Time {
	switch {
	case s.timeout > 0:
		return g.enabledAt(s, g.begun).Add(s.timeout)
	case !s.retriable:
		return time.Time{} // its attempts bound it
	case g.committed():
		return g.deadline
	}
	return g.enabledAt(s, g.begun).Add(g.plan.undoBudget)
}

// enabledAt returns when the steps before s had ended, and since when it could begin
// therefore; not before begun.
func (g *progress) enabledAt(s *step, begun time.Time) time.Time {
	for _, b := range s.before {
		begun = later(begun, g.forward[b].at)
	}
	return begun
}

func (g *progress) expired(s *step, now time.Time) bool {
	limit := g.limit(s)
	return !limit.IsZero() && !now.Before(limit)
}

// exhausted reports whether a step has had all the tries that its policy gives it.
func (g *progress) exhausted(s *step) bool {
	l, n := &g.forward[s.index], s.attempts()
	return n > 0 && !l.final && l.tries >= n
}

// spent reports whether a step is not tried any more.
func (g *progress) spent(s *step, now time.Time) bool { return g.exhausted(s) || g.expired(s, now) }

// failure returns what the first step failed of that did; nil if none did.
func (g *progress) failure(now time.Time) *Failure {
	for _, s := range g.plan.steps {
		l := &g.forward[s.index]
		switch {
		case l.completed() && !g.missed(s), l.running:
		case l.final || l.lost:
			return l.failure(task{s, false}, ReasonStep)
		case g.enabled(s) && g.exhausted(s):
			return l.failure(task{s, false}, ReasonStep)
		case g.enabled(s) && g.expired(s, now):
			return l.failure(task{s, false}, ReasonTimeout)
		}
	}
	return nil
}

// missed reports whether the step has no output to give to one that waits for
// it.
func (g *progress) missed(s *step) bool {
	if g.forward[s.index].result != nil {
		return false
	}
	for _, b := range s.behind {
		if next := g.plan.steps[b]; !g.forward[b].final && g.starved(next) {
			return true
		}
	}
	return false
}

func (l *leg) failure(t task, reason Reason) *Failure {
	f := &Failure{
		Reason: reason, Step: t.step.name, Undo: t.undo, Outcome: l.outcome,
		Status: l.entry.Status, Code: l.entry.Code, Detail: l.entry.Detail, Problem: l.entry.Problem,
	}
	if !l.known {
		f.Outcome = retry.NotSent
	}
	return f
}

// waiting reports whether a call will be tried later.
func (g *progress) waiting(now time.Time) bool {
	for _, s := range g.plan.steps {
		l := &g.forward[s.index]
		if !l.final && !l.lost && g.enabled(s) && !g.spent(s, now) {
			return true
		}
	}
	return false
}
