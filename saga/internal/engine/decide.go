package engine

import (
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
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

// decide returns what follows from p at the time now. It is pure, and is the
// whole policy: every engine, before or after a crash, decides alike.
func (p *progress) decide(now time.Time) decision {
	var d decision
	if p.status == journal.Compensating {
		d = p.decideBackward(now)
	} else {
		d = p.decideForward(now)
	}
	for i := range p.plan.Steps {
		for _, l := range [...]*leg{&p.forward[i], &p.undo[i]} {
			if l.isRunning() {
				d.sooner(l.due, now)
			} else if l.lingers && !l.hung {
				d.sooner(now.Add(time.Second), now)
			}
		}
	}
	return d
}

// decideForward decides for a saga that goes forward.
func (p *progress) decideForward(now time.Time) decision {
	committed := p.isCommitted()
	failed := p.failure(now)
	if !committed {
		if failed != nil && !p.isPivotOpen() {
			return decision{status: journal.Compensating, cause: failed}
		}
		if over := p.undoReason(now); over != nil && !p.isPivotOpen() {
			return decision{status: journal.Compensating, cause: over}
		}
	}
	var d decision
	done := true
	for _, s := range p.plan.Steps {
		l := &p.forward[s.Index]
		done = done && l.isPassed()
		if l.isOver() || l.isRunning() || !p.isEnabled(s) || p.isSpent(s, now) {
			continue
		}
		if s.MakesNoCall() { // moveUncalled ends it
			d.sooner(l.retryAt, now)
			continue
		}
		d.sooner(p.limit(s), now)
		p.offer(&d, task{s, false}, now)
	}
	if !committed {
		d.sooner(p.deadline, now)
	}
	switch {
	case done:
		d.status = journal.Completed
	case p.running == 0 && len(d.start) == 0 && failed != nil && !p.hasLaterCall(now):
		d.status, d.stuckOn = journal.Stuck, failed
	}
	return d
}

// offer makes d begin t, or wake when t may begin.
func (p *progress) offer(d *decision, t task, now time.Time) {
	switch l := p.leg(t); {
	case now.Before(l.retryAt):
		d.sooner(l.retryAt, now)
	case p.running+len(d.start) < p.plan.MaxParallel:
		d.start = append(d.start, t)
	}
}

// isLate reports whether the saga's deadline has passed, if it has one.
func (p *progress) isLate(now time.Time) bool { return !p.deadline.IsZero() && !now.Before(p.deadline) }

// undoReason returns why the saga must be undone while it still can be; nil if it goes on.
func (p *progress) undoReason(now time.Time) *journal.Failure {
	switch {
	case p.cancel:
		return &journal.Failure{Reason: journal.ReasonCancel}
	case p.isLate(now):
		return &journal.Failure{Reason: journal.ReasonTimeout}
	}
	return nil
}

// isPivotOpen reports whether the pivot may have had its effect, but its outcome is not known yet.
// Until then no step is undone.
func (p *progress) isPivotOpen() bool {
	if p.plan.Pivot == nil {
		return false
	}
	l := &p.forward[p.plan.Pivot.Index]
	return l.isRunning() || l.maybe && !l.isEnded()
}

// isEnabled reports whether a step may begin.
func (p *progress) isEnabled(s *graph.Step) bool {
	for _, b := range s.Before {
		if !p.forward[b].isPassed() {
			return false
		}
	}
	return !p.isStarved(s)
}

// isStarved reports whether a step needs an output that is no longer stored.
func (p *progress) isStarved(s *graph.Step) bool {
	for _, b := range s.Data {
		if l := &p.forward[b]; l.isCompleted() && l.result == nil {
			return true
		}
	}
	return false
}

// limit returns the time at which an unfinished step counts as failed; zero: never.
func (p *progress) limit(s *graph.Step) time.Time {
	switch {
	case s.Timeout > 0:
		return p.enabledAt(s, p.begun).Add(s.Timeout)
	case !s.Retriable:
		return time.Time{} // its attempts bound it
	case p.isCommitted():
		return p.deadline
	}
	return p.enabledAt(s, p.begun).Add(p.plan.UndoBudget)
}

// sentSince returns a time before which no owner can have sent the call t: its First-Sent, once it may have been
// sent. It is the call's own, however old the saga is. NotSent, a verb and a new owner do not make it younger.
func (p *progress) sentSince(t task) time.Time {
	l := p.leg(t)
	if !l.firstSent.IsZero() {
		return l.firstSent
	}
	return later(p.possibleAt(t), l.unsent)
}

// possibleAt returns when the call became possible: the write of the steps before it, or of the turn back.
func (p *progress) possibleAt(t task) time.Time {
	if t.undo {
		return p.failedAt
	}
	return p.enabledAt(t.step, p.claimed)
}

// enabledAt returns when the steps before s had ended, so that s could begin. It is never before
// begun.
func (p *progress) enabledAt(s *graph.Step, begun time.Time) time.Time {
	for _, b := range s.Before {
		begun = later(begun, p.forward[b].at)
	}
	return begun
}

func (p *progress) isExpired(s *graph.Step, now time.Time) bool {
	limit := p.limit(s)
	return !limit.IsZero() && !now.Before(limit)
}

// isExhausted reports whether a step has had all the attempts that its policy gives it.
func (p *progress) isExhausted(s *graph.Step) bool {
	l, n := &p.forward[s.Index], s.Attempts()
	return n > 0 && !l.isEnded() && l.attempts >= n
}

// isSpent reports whether a step is not tried any more.
func (p *progress) isSpent(s *graph.Step, now time.Time) bool {
	return p.isExhausted(s) || p.isExpired(s, now)
}

// failure returns the failure of the first failed step; nil if no step failed.
func (p *progress) failure(now time.Time) *journal.Failure {
	for _, s := range p.plan.Steps {
		l := &p.forward[s.Index]
		switch {
		case l.isCompleted() && !p.isOutputMissing(s), l.isRunning(), l.isSkipped():
		case l.isOver() && s.IsAwait() && l.outcome == retry.NotSent:
			return l.failure(task{s, false}, journal.ReasonTimeout)
		case l.isOver():
			return l.failure(task{s, false}, journal.ReasonStep)
		case p.isEnabled(s) && p.isExhausted(s):
			return l.failure(task{s, false}, journal.ReasonStep)
		case p.isEnabled(s) && p.isExpired(s, now):
			return l.failure(task{s, false}, journal.ReasonTimeout)
		}
	}
	return nil
}

// isOutputMissing reports whether the step lacks the output that a later step waits for.
func (p *progress) isOutputMissing(s *graph.Step) bool {
	if p.forward[s.Index].result != nil {
		return false
	}
	for _, b := range s.Behind {
		if next := p.plan.Steps[b]; !p.forward[b].isEnded() && p.isStarved(next) {
			return true
		}
	}
	return false
}

// hasLaterCall reports whether a call will be tried later. A sleep is none: no person waits for months to hear of a failure.
func (p *progress) hasLaterCall(now time.Time) bool {
	for _, s := range p.plan.Steps {
		l := &p.forward[s.Index]
		if !l.isOver() && !s.MakesNoCall() && p.isEnabled(s) && !p.isSpent(s, now) {
			return true
		}
	}
	return false
}
