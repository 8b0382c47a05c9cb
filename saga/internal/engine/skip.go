package engine

import (
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// skip ends the steps that are not to run. The next write has them, before anything begins because of them.
func (x *execution) skip() {
	p := x.progress
	if p.status != journal.Running || !p.plan.HasSkips() || x.checkReadable() != nil {
		return
	}
	now := x.now()
	for found := true; found; { // a skipped step may be the reason for the next one
		found = false
		for _, s := range p.plan.Steps {
			if x.skips(s, now) {
				p.forward[s.Index].skip(now)
				found, x.must = true, true
			}
		}
	}
}

// skips reports whether the saga goes on without the step s, of which no call runs.
func (x *execution) skips(s *graph.Step, now time.Time) bool {
	p := x.progress
	l := &p.forward[s.Index]
	switch {
	case !s.MaySkip(), l.isOver(), l.isRunning(), !p.isEnabled(s):
		return false
	case s.Optional && p.isSpent(s, now) && !l.maybe:
		return true // it never took effect, and is not tried any more
	case !s.Conditional, l.isOpened():
		return false
	case s.Input.IsMissing(p.isSkipped), s.When != nil && s.When.IsMissing(p.isSkipped):
		return true
	case s.When == nil:
		return false
	}
	holds := true // a condition that panics fails the step when it begins, as an input does
	_ = graph.Guarded(func() error {
		f, err := p.facts(x.record.Input, s.When)
		if err == nil {
			holds, _ = s.When.Eval(f).(bool)
		}
		return err
	})
	return !holds
}

// isSkipped reports whether the saga goes on without the step.
func (p *progress) isSkipped(i int) bool { return p.forward[i].isSkipped() }

// isSkipped reports whether the saga goes on without the leg's step.
func (l *leg) isSkipped() bool { return l.isEnded() && l.last.Skipped }

// isPassed reports whether the steps that wait for the leg's may begin.
func (l *leg) isPassed() bool { return l.isCompleted() || l.isSkipped() }

// skip ends a leg of which no attempt runs, or may have had an effect.
func (l *leg) skip(now time.Time) {
	l.cease()
	if !l.isKnown() {
		l.outcome = retry.NotSent
	}
	l.learn()
	l.owe()
	l.at, l.retryAt, l.last.Skipped = now, time.Time{}, true
}
