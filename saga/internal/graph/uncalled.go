package graph

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The shapes of a step that makes no call, and ends by time alone.
const (
	SleepFor   = "sleep"       // its input is a time.Duration
	SleepUntil = "sleep-until" // its input is a time.Time
)

// AwaitSignal is the shape of a step that makes no call, and ends when the saga is sent the signal of its name. To the engine it is
// a sleep that a signal ends early, and whose end by time is a failure.
const AwaitSignal = "await"

// MakesNoCall reports whether nothing is called at the address: it is that of a sleep, or of the wait for a signal.
func (a Address) MakesNoCall() bool {
	return a.Shape == SleepFor || a.Shape == SleepUntil || a.Shape == AwaitSignal
}

// IsSleep reports whether the step makes no call, and ends by time, or by a signal that it awaits.
func (s *Step) IsSleep() bool { return s.Address.MakesNoCall() }

func (s *Step) IsAwait() bool { return s.Address.Shape == AwaitSignal }

// failsByTime reports whether the step is an await that ends the saga if nobody sends in time.
func (s *Step) failsByTime() bool { return s.Wait > 0 && !s.Optional }

func (p *Plan) HasAwaits() bool { return slices.ContainsFunc(p.Steps, (*Step).IsAwait) }

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
	p.Sleeps = nil
	for _, s := range p.Steps {
		if !s.IsSleep() {
			continue
		}
		p.Sleeps = append(p.Sleeps, s)
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
