package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// moveSleeps takes in what time has done to the saga's sleeps: it refuses those whose input is wrong, as soon as that is
// known, and ends those that are over. The steps that are not to run are skipped before.
func (x *execution) moveSleeps() error {
	p := x.progress
	if len(p.plan.Sleeps) == 0 {
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
		for _, s := range p.plan.Sleeps {
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
func (x *execution) moveSleep(s *graph.Step) (ended bool, err error) {
	p, now := x.progress, x.now()
	l := &p.forward[s.Index]
	switch {
	case l.isEnded():
		return false, nil
	case s.IsAwait():
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
func (x *execution) inputOf(s *graph.Step) (input any, err error) {
	p := x.progress
	for _, b := range s.Data {
		if l := &p.forward[b]; !l.isSkipped() && (!l.isCompleted() || l.result == nil) {
			return nil, nil
		}
	}
	if s.Input.IsMissing(p.isSkipped) { // it is skipped itself
		return nil, nil
	}
	known, err := p.facts(x.record.Input, s.Nodes()...)
	if err != nil {
		return nil, err
	}
	var panicked *sdk.PanicError
	err = graph.Guarded(func() error {
		input = s.Compute(known)
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
	return graph.CheckSleep(input, now)
}

// wakeOf returns when a sleep ends that can begin. Each owner finds the same time: the steps before it have ended
// when their entries say so. A clock that went back behind that makes the sleep no longer.
func (p *progress) wakeOf(s *graph.Step, input any, now time.Time) time.Time {
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
	for _, s := range p.plan.Sleeps {
		l := &p.forward[s.Index]
		if l.isEnded() || l.retryAt.IsZero() {
			continue
		}
		l.outcome, l.at = retry.NotSent, now
		l.learn()
	}
}

// loadSleep corrects the leg of a sleep that was read.
func (l *leg) loadSleep(s *graph.Step, e journal.Entry) {
	if !l.isEnded() && s.Address.Shape == graph.SleepUntil {
		l.retryAt = e.RetryAt // a clock that went back does not move it
	}
}
