package engine

import (
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// A standing is the state of a step in a saga that goes back.
type standing uint8

const (
	cleared  standing = iota // no effect of the step is left, or ever was there
	busy                     // a call is running
	unsolved                 // its outcome must be found out
	undoable                 // it must be undone
	blocked                  // neither is possible
)

// standing returns the state of step s, without regard to the other steps' undos.
func (p *progress) standing(s *graph.Step, now time.Time) standing {
	f, u := &p.forward[s.Index], &p.undo[s.Index]
	switch {
	case f.isRunning() || u.isRunning():
		return busy
	case f.isHarmless(), !f.isKnown() && !f.maybe, s.LeavesNothing(), s.MakesNoCall():
		return cleared
	case u.isCompleted():
		return cleared
	case !f.isEnded():
		return p.openStanding(s, now)
	case s.Undo == nil:
		return blocked // never with a checked plan
	case u.isOver(), f.hung:
		return blocked
	case f.lingers:
		return busy
	default:
		return undoable
	}
}

// resolveUntil is when a saga stops finding out the outcomes of its calls, and undoes them
// without these. A call that fails each time must not keep its undo from being tried while time
// is left. Most steps are spent before.
func (p *progress) resolveUntil() time.Time { return p.failedAt.Add(p.plan.UndoBudget / 4) }

// openStanding is the standing of a step that may have been sent. To find out its outcome the
// step is sent again.
func (p *progress) openStanding(s *graph.Step, now time.Time) standing {
	f, u := &p.forward[s.Index], &p.undo[s.Index]
	switch {
	case f.state == callGivenUp, p.isStarved(s):
		return blocked
	case s.Undo == nil, now.Before(p.resolveUntil()) && !p.mayUndoUnknown(s, now):
		return unsolved
	case u.isOver(), f.hung:
		return blocked
	case f.lingers:
		return busy
	}
	return undoable
}

// mayUndoUnknown reports whether a step is undone although its outcome is unknown. An owner that
// comes after the step's Timeout tries it once: the previous owner may have had an answer.
func (p *progress) mayUndoUnknown(s *graph.Step, now time.Time) bool {
	return p.isExhausted(s) || p.isExpired(s, now) && p.forward[s.Index].isAttempted()
}

// decideBackward decides for a saga that goes back. First the saga finds out which steps had an
// effect. Then it undoes them, each step after all later steps. Independent branches do not wait
// for each other, not even for a blocked branch.
func (p *progress) decideBackward(now time.Time) decision {
	var d decision
	d.sooner(p.deadline, now)
	d.sooner(p.resolveUntil(), now)
	late := p.isLate(now)
	all := make([]standing, len(p.plan.Steps))
	for i, s := range p.plan.Steps {
		all[i] = p.standing(s, now)
	}
	done, alive := true, p.running > 0
	for i := len(p.plan.Steps) - 1; i >= 0; i-- {
		s := p.plan.Steps[i]
		done = done && all[i] == cleared
		var t task
		switch {
		case late:
			continue
		case all[i] == busy:
			alive = true
			continue
		case all[i] == unsolved:
			t = task{s, false}
			d.sooner(p.limit(s), now)
		case all[i] == undoable && isFree(s, all):
			t = task{s, true}
		default:
			continue
		}
		alive = true
		p.offer(&d, t, now)
	}
	switch {
	case done:
		return decision{status: journal.Compensated}
	case !alive:
		return decision{status: journal.Stuck, stuckOn: p.obstacle(all, late)}
	}
	return d
}

// isFree reports whether all steps that ran after s, directly or not, are cleared. A step in
// between that needs no undo does not separate s from the steps after it.
func isFree(s *graph.Step, all []standing) bool {
	for _, b := range s.Below {
		if all[b] != cleared {
			return false
		}
	}
	return true
}

// obstacle returns the failure that the saga is stuck on.
func (p *progress) obstacle(all []standing, late bool) *journal.Failure {
	for i := len(all) - 1; i >= 0; i-- {
		s := p.plan.Steps[i]
		undo := s.Undo != nil && (p.forward[i].isEnded() || p.undo[i].isKnown())
		t := task{s, undo}
		switch {
		case all[i] == blocked:
			return p.leg(t).failure(t, journal.ReasonStep)
		case all[i] != cleared && late:
			return p.leg(t).failure(t, journal.ReasonTimeout)
		}
	}
	return &journal.Failure{Reason: journal.ReasonTimeout, Outcome: retry.Unknown}
}
