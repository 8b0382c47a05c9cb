package saga

import (
	"time"

	"github.com/fanonce/fanonce/retry"
)

// A standing is where a step stands in a saga that goes back.
type standing uint8

const (
	cleared  standing = iota // nothing of it is left, or ever was there
	busy                     // a call is under way
	unsolved                 // whether it had its effect must be found out
	undoable                 // it must be undone
	blocked                  // neither can go on
)

// standing returns where step s stands, whatever stands in its way.
func (g *progress) standing(s *step, now time.Time) standing {
	f, u := &g.forward[s.index], &g.undo[s.index]
	switch {
	case f.running || u.running:
		return busy
	case f.harmless(), !f.known && !f.maybe, s.leavesNothing() && (f.final || !g.holdsUp(s)):
		return cleared
	case u.completed():
		return cleared
	case !f.final:
		return g.openStanding(s, now)
	case s.undo == nil:
		return blocked // no plan that was checked gets here
	case u.final || u.lost:
		return blocked
	default:
		return undoable
	}
}

// holdsUp reports whether it must be found out how the call of s ended, which leaves nothing to
// undo, for the sake of a step behind it: that one can only be sent again after it, and may have
// its input from it. So it is with CheckpointEdges alone.
func (g *progress) holdsUp(s *step) bool {
	for _, b := range s.below {
		if l := &g.forward[b]; l.maybe && !l.final && !g.plan.steps[b].leavesNothing() {
			return true
		}
	}
	return false
}

// resolveUntil is when a saga stops to find out what its calls did, and undoes
// them unseen: a call that fails each time must not keep its undo from being
// tried while there is time. Most steps are spent before.
func (g *progress) resolveUntil() time.Time { return g.turned.Add(g.plan.undoBudget / 4) }

// openStanding is the standing of a step that may have been sent. To find out
// it is sent again, so it needs its input, which it had when it was sent.
func (g *progress) openStanding(s *step, now time.Time) standing {
	if g.forward[s.index].lost {
		return blocked
	}
	if g.neverBegan(s) {
		return cleared
	}
	for _, b := range s.before {
		switch before := &g.forward[b]; {
		case before.final && !before.completed(), before.lost, g.starved(s):
			return blocked
		case !before.final:
			return busy // its turn comes when that one is known
		}
	}
	switch u := &g.undo[s.index]; {
	case s.undo == nil, now.Before(g.resolveUntil()) && !(g.unseen(s, now) && g.dispensable(s)):
		return unsolved
	case u.final || u.lost:
		return blocked
	}
	return undoable
}

// neverBegan reports whether no owner can have begun the step: one of those before it had no
// effect, or did not begin itself.
func (g *progress) neverBegan(s *step) bool {
	for _, b := range s.before {
		before := &g.forward[b]
		if before.harmless() || before.neverAnswered() || !before.final && g.neverBegan(g.plan.steps[b]) {
			return true
		}
	}
	return false
}

// unseen reports whether a step is undone although nobody knows what it did. An owner that
// comes after its Timeout tries it once: the owner before it may have had an answer.
func (g *progress) unseen(s *step, now time.Time) bool {
	return g.exhausted(s) || g.expired(s, now) && g.forward[s.index].tried
}

// dispensable reports whether nothing is lost if nobody finds out what a step did. Of the
// steps behind it none may have begun: what they did can only be found out, and undone, with
// its output. They may have with CheckpointEdges alone.
func (g *progress) dispensable(s *step) bool {
	for _, b := range s.below {
		if l := &g.forward[b]; !l.final && (l.known || l.maybe) {
			return false
		}
	}
	return true
}

// backward decides for a saga that goes back: first it is found out what had an
// effect, then that is undone, each step after all that ran behind it.
// Independent branches do not wait for each other, not even for one that is
// blocked.
func (g *progress) backward(now time.Time) decision {
	var d decision
	d.sooner(g.deadline, now)
	d.sooner(g.resolveUntil(), now)
	late := g.late(now)
	all := make([]standing, len(g.plan.steps))
	for i, s := range g.plan.steps {
		all[i] = g.standing(s, now)
	}
	done, alive := true, g.running > 0
	for i := len(g.plan.steps) - 1; i >= 0; i-- {
		s := g.plan.steps[i]
		done = done && all[i] == cleared
		var t task
		switch {
		case late:
			continue
		case all[i] == unsolved:
			t = task{s, false}
			d.sooner(g.limit(s), now)
		case all[i] == undoable && free(s, all):
			t = task{s, true}
		default:
			continue
		}
		alive = true
		g.offer(&d, t, now)
	}
	switch {
	case done:
		return decision{status: Compensated}
	case !alive:
		return decision{status: Stuck, stuckOn: g.obstacle(all, late)}
	}
	return d
}

// free reports whether nothing is left of what ran after s, directly or not. A step
// between that needs no undo does not part s from those after it.
func free(s *step, all []standing) bool {
	for _, b := range s.below {
		if all[b] != cleared {
			return false
		}
	}
	return true
}

// obstacle returns what the saga is stuck on.
func (g *progress) obstacle(all []standing, late bool) *Failure {
	for i := len(all) - 1; i >= 0; i-- {
		s := g.plan.steps[i]
		undo := s.undo != nil && (g.forward[i].final || g.undo[i].known)
		t := task{s, undo}
		switch {
		case all[i] == blocked:
			return g.leg(t).failure(t, ReasonStep)
		case all[i] != cleared && late:
			return g.leg(t).failure(t, ReasonTimeout)
		}
	}
	return &Failure{Reason: ReasonTimeout, Outcome: retry.Unknown}
}
