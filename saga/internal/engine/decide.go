package engine

import (
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
)

// A decision is what follows from a progress.
type decision struct {
	start   []task           // calls to begin now
	status  journal.Status   // where the saga goes; 0: it stays
	cause   *journal.Failure // with Compensating
	stuckOn *journal.Failure // with Stuck
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
	if g.status == journal.Compensating {
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
			return decision{status: journal.Compensating, cause: failed}
		}
		if over := g.over(now); over != nil && !g.pivotOpen() {
			return decision{status: journal.Compensating, cause: over}
		}
	}
	var d decision
	done := true
	for _, s := range g.plan.Steps {
		l := &g.forward[s.Index]
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
		d.status = journal.Completed
	case g.running == 0 && len(d.start) == 0 && failed != nil && !g.waiting(now):
		d.status, d.stuckOn = journal.Stuck, failed
	}
	return d
}

// offer makes d begin t, or wake when t may begin.
func (g *progress) offer(d *decision, t task, now time.Time) {
	switch l := g.leg(t); {
	case now.Before(l.retryAt):
		d.sooner(l.retryAt, now)
	case g.running+len(d.start) < g.plan.MaxParallel:
		d.start = append(d.start, t)
	}
}

// late reports whether the saga's deadline has passed, if it has one.
func (g *progress) late(now time.Time) bool { return !g.deadline.IsZero() && !now.Before(g.deadline) }

// over returns why a saga that could still be undone is to be; nil if it is not.
func (g *progress) over(now time.Time) *journal.Failure {
	switch {
	case g.cancel:
		return &journal.Failure{Reason: journal.ReasonCancel}
	case g.late(now):
		return &journal.Failure{Reason: journal.ReasonTimeout}
	}
	return nil
}

// pivotOpen reports whether the pivot may have had its effect, but its outcome is not known yet.
// Until then no step is undone.
func (g *progress) pivotOpen() bool {
	if g.plan.pivot == nil {
		return false
	}
	l := &g.forward[g.plan.pivot.Index]
	return l.running || l.maybe && !l.final
}

// enabled reports whether a step may begin.
func (g *progress) enabled(s *Step) bool {
	for _, b := range s.Before {
		if !g.forward[b].completed() {
			return false
		}
	}
	return !g.starved(s)
}

// starved reports whether a step needs an output that is no longer stored.
func (g *progress) starved(s *Step) bool {
	for _, b := range s.Data {
		if l := &g.forward[b]; l.completed() && l.result == nil {
			return true
		}
	}
	return false
}

// limit returns the time at which an unfinished step counts as failed; zero: never.
func (g *progress) limit(s *Step) time.Time {
	switch {
	case s.Timeout > 0:
		return g.enabledAt(s, g.begun).Add(s.Timeout)
	case !s.Retriable:
		return time.Time{} // its attempts bound it
	case g.committed():
		return g.deadline
	}
	return g.enabledAt(s, g.begun).Add(g.plan.UndoBudget)
}

// enabledAt returns when the steps before s had ended, so that s could begin. It is never before
// begun.
func (g *progress) enabledAt(s *Step, begun time.Time) time.Time {
	for _, b := range s.Before {
		begun = later(begun, g.forward[b].at)
	}
	return begun
}

func (g *progress) expired(s *Step, now time.Time) bool {
	limit := g.limit(s)
	return !limit.IsZero() && !now.Before(limit)
}

// exhausted reports whether a step has had all the attempts that its policy gives it.
func (g *progress) exhausted(s *Step) bool {
	l, n := &g.forward[s.Index], s.Attempts()
	return n > 0 && !l.final && l.attempts >= n
}

// spent reports whether a step is not tried any more.
func (g *progress) spent(s *Step, now time.Time) bool { return g.exhausted(s) || g.expired(s, now) }

// failure returns the failure of the first failed step; nil if no step failed.
func (g *progress) failure(now time.Time) *journal.Failure {
	for _, s := range g.plan.Steps {
		l := &g.forward[s.Index]
		switch {
		case l.completed() && !g.missed(s), l.running:
		case l.final || l.lost:
			return l.failure(task{s, false}, journal.ReasonStep)
		case g.enabled(s) && g.exhausted(s):
			return l.failure(task{s, false}, journal.ReasonStep)
		case g.enabled(s) && g.expired(s, now):
			return l.failure(task{s, false}, journal.ReasonTimeout)
		}
	}
	return nil
}

// missed reports whether the step lacks the output that a later step waits for.
func (g *progress) missed(s *Step) bool {
	if g.forward[s.Index].result != nil {
		return false
	}
	for _, b := range s.behind {
		if next := g.plan.Steps[b]; !g.forward[b].final && g.starved(next) {
			return true
		}
	}
	return false
}

func (l *leg) failure(t task, reason journal.Reason) *journal.Failure {
	f := &journal.Failure{
		Reason: reason, Step: t.step.Name, Undo: t.undo, Outcome: l.outcome,
		Status: l.entry.Status, Code: l.entry.Code, Detail: l.entry.Detail, Problem: l.entry.Problem,
		Body: l.entry.Body, BodyTooLong: l.entry.BodyTooLong,
	}
	if !l.known {
		f.Outcome = retry.NotSent
	}
	return f
}

// waiting reports whether a call will be tried later.
func (g *progress) waiting(now time.Time) bool {
	for _, s := range g.plan.Steps {
		l := &g.forward[s.Index]
		if !l.final && !l.lost && g.enabled(s) && !g.spent(s, now) {
			return true
		}
	}
	return false
}
