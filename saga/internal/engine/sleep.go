package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// The shapes of a step that makes no call, and ends by time alone.
const (
	SleepFor   = "sleep"       // its input is a time.Duration
	SleepUntil = "sleep-until" // its input is a time.Time
)

// MakesNoCall reports whether nothing is called at the address: it is that of a sleep, or of the wait for a signal.
func (a Address) MakesNoCall() bool {
	return a.Shape == SleepFor || a.Shape == SleepUntil || a.Shape == AwaitSignal
}

// isSleep reports whether the step makes no call, and ends by time, or by a signal that it awaits.
func (s *Step) isSleep() bool { return s.Address.MakesNoCall() }

// CheckSleep returns what is wrong with the input of a sleep, at the time now.
func CheckSleep(input any, now time.Time) error {
	switch v := input.(type) {
	case time.Duration:
		switch {
		case v < 0:
			return fmt.Errorf("%v is negative", v)
		case v > MaxDuration:
			return TooLong(v)
		}
	case time.Time:
		switch left := v.Sub(now); {
		case v.IsZero():
			return errors.New("the time is zero")
		case left > MaxDuration:
			return TooLong(left)
		}
	}
	return nil
}

// markSleeps notes the plan's sleeps, and which of them a saga can only go forward from. The saga can still
// be undone while it sleeps, unless a step that cannot be undone may have run by then.
func (p *Plan) markSleeps(before [][]bool) {
	p.sleeps = nil
	for _, s := range p.Steps {
		if !s.isSleep() {
			continue
		}
		p.sleeps = append(p.sleeps, s)
		s.pastReturn = false
		if s.failsByTime() { // checkPivot and checkUndos see to it that it comes before those
			continue
		}
		for _, other := range p.Steps {
			stays := other.isBare() || other.IsPivot || other.isForwardOnly()
			s.pastReturn = s.pastReturn || stays && !before[other.Index][s.Index]
		}
	}
}

// moveSleeps takes in what time has done to the saga's sleeps: it refuses those whose input is wrong, as soon as that is
// known, and ends those that are over. The steps that are not to run are skipped before.
func (x *execution) moveSleeps() error {
	p := x.progress
	if len(p.plan.sleeps) == 0 {
		return nil
	}
	x.ear.waits.Store(false)
	x.ear.hear()
	if p.status != journal.Running || p.cancel && !p.isCommitted() {
		return nil
	}
	if err := x.checkReadable(); err != nil {
		return err
	}
	for moved := true; moved; { // the end of one may begin another
		moved = false
		for _, s := range p.plan.sleeps {
			ended, err := x.moveSleep(s)
			if err != nil {
				return err
			}
			moved = moved || ended
		}
		if moved {
			x.skip()
		}
	}
	return nil
}

// moveSleep is moveSleeps for one of them. ended says that it ended well.
func (x *execution) moveSleep(s *Step) (ended bool, err error) {
	p, now := x.progress, x.now()
	l := &p.forward[s.Index]
	switch {
	case l.isEnded():
		return false, nil
	case s.isAwait():
		return x.moveAwait(s)
	}
	if l.retryAt.IsZero() {
		input, err := x.inputOf(s)
		if err != nil {
			return false, err
		}
		if wrong := sleepProblem(input, now); wrong != nil {
			l.conclude(retry.Rejected, now)
			l.last.Detail = detail(wrong)
			x.must = true
			return false, nil
		}
		if input == nil || !p.isEnabled(s) {
			return false, nil
		}
		l.retryAt = p.wakeOf(s, input, now)
	}
	if !p.isEnabled(s) || now.Before(l.retryAt) {
		return false, nil
	}
	l.conclude(retry.Completed, now)
	l.result = s.Zero
	if p.isCommitted() { // what comes next has its own time
		p.renew(now)
	}
	x.must = true // before a call that it lets begin
	return true, nil
}

// inputOf returns the input of a step that makes no call; nil: the steps that it is made from have not ended. A panic is its
// input, too.
func (x *execution) inputOf(s *Step) (input any, err error) {
	p := x.progress
	for _, b := range s.Data {
		if l := &p.forward[b]; !l.isSkipped() && (!l.isCompleted() || l.result == nil) {
			return nil, nil
		}
	}
	if s.Input.IsMissing(p.isSkipped) { // it is skipped itself
		return nil, nil
	}
	known, err := p.facts(x.record.Input, s.nodes()...)
	if err != nil {
		return nil, err
	}
	var panicked *sdk.PanicError
	err = Guarded(func() error {
		input = s.compute(known)
		return nil
	})
	if errors.As(err, &panicked) {
		x.engine.tell(journal.Event{
			Kind: journal.EventPanic, Engine: x.owner.Engine, ID: x.owner.ID, Err: fmt.Errorf("step %s: %w", s.Name, err),
		})
		return panicked, nil
	}
	return input, nil
}

// sleepProblem is CheckSleep for what inputOf returned.
func sleepProblem(input any, now time.Time) error {
	if panicked, ok := input.(*sdk.PanicError); ok {
		return fmt.Errorf("input: %w", panicked)
	}
	return CheckSleep(input, now)
}

// wakeOf returns when a sleep ends that can begin. Each owner finds the same time: the steps before it have ended
// when their entries say so. A clock that went back behind that makes the sleep no longer.
func (p *progress) wakeOf(s *Step, input any, now time.Time) time.Time {
	if until, ok := input.(time.Time); ok {
		return until
	}
	length, _ := input.(time.Duration)
	base := p.enabledAt(s, p.claimed)
	if base.After(now) {
		base = now
	}
	return base.Add(length)
}

// tellSleeps puts the open sleeps into the next write, with the times when they end, and with the time now: if the clock
// goes back behind that, they end no later by it.
func (p *progress) tellSleeps(now time.Time) {
	for _, s := range p.plan.sleeps {
		l := &p.forward[s.Index]
		if l.isEnded() || l.retryAt.IsZero() {
			continue
		}
		l.outcome, l.at = retry.NotSent, now
		l.learn()
	}
}

// loadSleep corrects the leg of a sleep that was read.
func (l *leg) loadSleep(s *Step, e journal.Entry) {
	if !l.isEnded() && s.Address.Shape == SleepUntil {
		l.retryAt = e.RetryAt // a clock that went back does not move it
	}
}
