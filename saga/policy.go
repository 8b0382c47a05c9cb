package saga

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/retry"
)

// MaxDuration is the longest time that a definition or a [Config] may name: one hundred
// years. A journal could not store a time that is much further away.
const MaxDuration = 100 * 365 * 24 * time.Hour

// A RetryPolicy says how often the call of a step is tried. A try is one call of the
// client, which makes attempts of its own, or one run of the function. A call is tried
// again where its outcome is unknown, or where it had no effect and a further try may
// succeed. The zero policy means the defaults.
type RetryPolicy struct {
	// Attempts is how often the call is tried at most. After that the step has failed:
	// the saga is compensated, and the step is undone if it may have had an effect. If
	// the step is the pivot and may have had its effect, the saga is stuck. The same holds
	// for a step past the pivot. A try that is lost with its process does not count.
	//
	// Zero means [DefaultAttempts]. For a [StepRef.Retriable] step zero means no bound:
	// [Builder.UndoBudget] bounds it.
	Attempts int
	// Backoff is the wait before the next try, of the undo too. Zero fields mean those of
	// [Config].Backoff. A callee that asks for a longer wait (Retry-After) gets it.
	Backoff retry.Backoff
	// Permanent reports whether no further try can help after err, the error of a try.
	// The step has then failed, as after its last attempt. It is not asked about undos. It
	// must be pure. A panic counts as false. Nil means that no error is permanent.
	//
	// A function can say so itself, with [saga.Permanent] or [saga.Rejected].
	Permanent func(err error) bool
}

// Retry sets how often the step is tried.
func (s *StepRef[In, Out]) Retry(policy RetryPolicy) *StepRef[In, Out] {
	field := "step " + s.step.name + ": Retry."
	if policy.Attempts < 0 {
		s.draft.problem(fmt.Errorf("%sAttempts: %d is negative", field, policy.Attempts))
	}
	if err := checkBackoff(policy.Backoff); err != nil {
		s.draft.problem(fmt.Errorf("%sBackoff%w", field, err))
	}
	s.step.policy = policy
	return s
}

// checkBackoff returns what is wrong with a Backoff whose zero fields mean defaults.
func checkBackoff(b retry.Backoff) error {
	switch {
	case b.Base < 0:
		return fmt.Errorf(".Base: %v is negative", b.Base)
	case b.Cap < 0:
		return fmt.Errorf(".Cap: %v is negative", b.Cap)
	case b.Base > MaxDuration:
		return fmt.Errorf(".Base: %w", tooLong(b.Base))
	case b.Cap > MaxDuration:
		return fmt.Errorf(".Cap: %w", tooLong(b.Cap))
	case b.Cap > 0 && b.Cap < b.Base:
		return fmt.Errorf(".Cap: %v is less than Base %v", b.Cap, b.Base)
	case !(b.Jitter >= 0 && b.Jitter <= 1): // written so that NaN is rejected
		return fmt.Errorf(".Jitter: %v is not in 0 to 1", b.Jitter)
	}
	return nil
}

func tooLong(d time.Duration) error {
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

var defaultBackoff = retry.Backoff{Base: DefaultBackoffBase, Cap: DefaultBackoffCap, Jitter: 1}

// attempts returns how often the step is tried; 0: as often as time allows.
func (s *step) attempts() int {
	if s.policy.Attempts == 0 && !s.retriable {
		return DefaultAttempts
	}
	return s.policy.Attempts
}

// permanent asks the step's policy about the error of a try. The error that it returns is
// a panic of the policy.
func (s *step) permanent(err error) (bool, error) {
	if s.policy.Permanent == nil {
		return false, nil
	}
	permanent := false
	panicked := guarded(func() error {
		permanent = s.policy.Permanent(err)
		return nil
	})
	return permanent && panicked == nil, panicked
}

// longest returns for how long the tries of the step can go on, if the engine's backoff
// is that one and no callee asks for longer waits.
func (p *plan) longest(s *step, backoff retry.Backoff) time.Duration {
	if s.timeout > 0 {
		return s.timeout
	}
	n := s.attempts()
	if n == 0 {
		return p.undoBudget
	}
	b := filled(s.policy.Backoff, backoff)
	sum := product(n, s.tryTimeout)
	wait := b.Base
	for n--; n > 0 && wait < b.Cap; n-- {
		sum = min(sum+wait, MaxDuration)
		wait = min(2*wait, b.Cap)
	}
	return min(sum+product(n, wait), MaxDuration)
}

// product returns n times d, and at most MaxDuration.
func product(n int, d time.Duration) time.Duration {
	if n > 0 && d > MaxDuration/time.Duration(n) {
		return MaxDuration
	}
	return time.Duration(n) * d
}

// need returns for how long the callee of the step must remember a key: while the call
// and its undo can be sent. With CheckpointEdges calls are sent again that have completed,
// for as long as the saga can take.
func (p *plan) need(s *step, backoff retry.Backoff) time.Duration {
	if p.edges {
		forward := p.timeout
		if forward == 0 {
			forward = p.longestChain(backoff)
		}
		return min(forward+p.undoBudget, MaxDuration)
	}
	need := p.longest(s, backoff)
	if s.undo != nil {
		need += p.undoBudget
	}
	return min(need, MaxDuration)
}

// longestChain returns how long the steps that can fail may take, one after the other.
func (p *plan) longestChain(backoff retry.Backoff) time.Duration {
	ends := make([]time.Duration, len(p.steps)) // by step
	var end func(i int) time.Duration
	end = func(i int) time.Duration {
		if ends[i] > 0 {
			return ends[i]
		}
		ends[i] = 1 // for steps that wait for each other, which is another problem
		var begin time.Duration
		for _, b := range p.steps[i].before {
			begin = max(begin, end(b))
		}
		ends[i] = min(begin+p.longest(p.steps[i], backoff), MaxDuration)
		return ends[i]
	}
	var longest time.Duration
	for i, s := range p.steps {
		if s.canFail() {
			longest = max(longest, end(i))
		}
	}
	return longest
}

// retentionProblems returns what is wrong with the declared retentions, if the engine's
// backoff is that one.
func (p *plan) retentionProblems(backoff retry.Backoff) (problems []error) {
	for _, s := range p.steps {
		undeclared := p.edges && s.retention == 0
		if need := p.need(s, backoff); undeclared || s.retention > 0 && s.retention < need {
			problems = append(problems, &RetentionError{Step: s.name, Retention: s.retention, Need: need})
		}
	}
	return problems
}
