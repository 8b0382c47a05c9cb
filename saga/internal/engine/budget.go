package engine

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

// filled returns b with its zero fields from defaults.
func filled(b, defaults retry.Backoff) retry.Backoff {
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
	if s.Policy.Attempts == 0 && !s.Retriable {
		return DefaultAttempts
	}
	return s.Policy.Attempts
}

// permanent asks the step's policy about the error of an attempt. The error that it returns is
// a panic of the policy.
func (s *Step) permanent(err error) (bool, error) {
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
	b := filled(s.Policy.Backoff, backoff)
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

// need returns for how long the callee of the step must remember a key: while the call
// and its undo can be sent. With CheckpointEdges calls are sent again that have completed,
// for as long as the saga can take.
func (p *Plan) need(s *Step, backoff retry.Backoff) time.Duration {
	if p.Edges {
		forward := p.Timeout
		if forward == 0 {
			forward = p.longestChain(backoff)
		}
		return min(forward+p.UndoBudget, MaxDuration)
	}
	need := p.longest(s, backoff)
	if s.Undo != nil {
		need += p.UndoBudget
	}
	return min(need, MaxDuration)
}

// longestChain returns how long the steps that can fail may take, one after the other.
func (p *Plan) longestChain(backoff retry.Backoff) time.Duration {
	ends := make([]time.Duration, len(p.Steps)) // by step
	var end func(i int) time.Duration
	end = func(i int) time.Duration {
		if ends[i] > 0 {
			return ends[i]
		}
		ends[i] = 1 // for steps that wait for each other, which is another problem
		var begin time.Duration
		for _, b := range p.Steps[i].Before {
			begin = max(begin, end(b))
		}
		ends[i] = min(begin+p.longest(p.Steps[i], backoff), MaxDuration)
		return ends[i]
	}
	var longest time.Duration
	for i, s := range p.Steps {
		if s.canFail() {
			longest = max(longest, end(i))
		}
	}
	return longest
}

// RetentionProblems returns what is wrong with the declared retentions, if the engine's
// backoff is that one.
func (p *Plan) RetentionProblems(backoff retry.Backoff) (problems []error) {
	for _, s := range p.Steps {
		switch need := p.need(s, backoff); {
		case p.Edges && s.Retention == 0:
			problems = append(problems, fmt.Errorf("%w: step %s: CheckpointEdges needs a declared Retention of at least %v",
				ErrRetention, s.Name, need))
		case s.Retention > 0 && s.Retention < need:
			problems = append(problems, fmt.Errorf("%w: step %s: its callee remembers keys for %v, but they can be sent for %v",
				ErrRetention, s.Name, s.Retention, need))
		}
	}
	return problems
}
