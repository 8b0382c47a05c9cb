package graph

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/retry"
)

// A Policy says how often the call of a step is tried. Its fields are those of the front's
// RetryPolicy.
type Policy struct {
	Attempts  int
	Backoff   retry.Backoff
	Permanent func(err error) bool
}

func TooLong(d time.Duration) error {
	return fmt.Errorf("%v is more than MaxDuration, %v", d, MaxDuration)
}

// FillBackoff returns b with its zero fields from defaults.
func FillBackoff(b, defaults retry.Backoff) retry.Backoff {
	if b.Base == 0 {
		b.Base = defaults.Base
		if b.Cap > 0 {
			b.Base = min(b.Base, b.Cap)
		}
	}
	if b.Cap == 0 {
		b.Cap = max(defaults.Cap, b.Base)
	}
	if b.Jitter == 0 {
		b.Jitter = defaults.Jitter
	}
	return b
}

// Attempts returns how often the step is tried; 0: as often as time allows.
func (s *Step) Attempts() int {
	if s.IsSleep() {
		return 0
	}
	if s.Policy.Attempts == 0 && !s.Retriable {
		return DefaultAttempts
	}
	return s.Policy.Attempts
}

// IsPermanent asks the step's policy about the error of an attempt. The error that it returns is
// a panic of the policy.
func (s *Step) IsPermanent(err error) (bool, error) {
	if s.Policy.Permanent == nil {
		return false, nil
	}
	permanent := false
	panicked := Guarded(func() error {
		permanent = s.Policy.Permanent(err)
		return nil
	})
	return permanent && panicked == nil, panicked
}

// longest returns for how long the attempts of the step can go on, if the engine's backoff
// is that one and no callee asks for longer waits.
func (p *Plan) longest(s *Step, backoff retry.Backoff) time.Duration {
	if s.Timeout > 0 {
		return s.Timeout
	}
	n := s.Attempts()
	if n == 0 {
		return p.UndoBudget
	}
	b := FillBackoff(s.Policy.Backoff, backoff)
	sum := product(n, s.AttemptTimeout)
	wait := b.Base
	for n--; n > 0 && wait < b.Cap; n-- {
		sum = min(sum+wait, MaxDuration)
		wait = min(2*wait, b.Cap)
	}
	return min(sum+product(n, wait), MaxDuration)
}

// product returns n times d, and at most maxDuration.
func product(n int, d time.Duration) time.Duration {
	if n > 0 && d > MaxDuration/time.Duration(n) {
		return MaxDuration
	}
	return time.Duration(n) * d
}

// keyAge returns how old the key of the step's call can be when it is sent the last time, by the
// call or by its undo.
func (p *Plan) keyAge(s *Step, backoff retry.Backoff) time.Duration {
	age := p.longest(s, backoff)
	if s.Undo != nil {
		age += p.UndoBudget
	}
	return min(age, MaxDuration)
}

// RetentionProblems returns what is wrong with the declared retentions, if the engine's
// backoff is that one.
func (p *Plan) RetentionProblems(backoff retry.Backoff) (problems []error) {
	for _, s := range p.Steps {
		if age := p.keyAge(s, backoff); s.Retention > 0 && s.Retention < age {
			problems = append(problems, fmt.Errorf("%w: step %s: its callee remembers keys for %v, but they can be sent for %v",
				ErrRetention, s.Name, s.Retention, age))
		}
	}
	return problems
}
