package saga

import (
	"fmt"
	"time"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
)

// MaxDuration is the longest time that a definition or a [Config] may name: one hundred
// years. A journal could not store a time that is much further away.
const MaxDuration = 100 * 365 * 24 * time.Hour

// A RetryPolicy says how often the call of a step is tried. An attempt is one call of the
// client, which makes attempts of its own, or one run of the function. A call is tried
// again where its outcome is unknown, or where it had no effect and a further attempt may
// succeed. The zero policy means the defaults.
type RetryPolicy struct {
	// Attempts is how often the call is tried at most. After that the step has failed:
	// the saga is compensated, and the step is undone if it may have had an effect. If
	// the step is the pivot and may have had its effect, the saga is stuck. The same holds
	// for a step past the pivot. An attempt that is lost with its process, or that
	// its process cuts off ([Engine.Close], a lost lease), does not count. Nor does one of a function that still waited
	// for another saga ([ErrDetached]): it takes as long as that, within the Timeout of its step or saga.
	//
	// Zero means [DefaultAttempts]. For a [StepRef.Retriable] step zero means no bound:
	// [Builder.UndoBudget] bounds it.
	Attempts int
	// Backoff is the wait before the next attempt, of the undo too. Zero fields mean those of
	// [Config].Backoff. A callee that asks for a longer wait (Retry-After) gets it, up to an hour:
	// a mistake there must not put a saga to sleep for years.
	Backoff retry.Backoff
	// Permanent reports whether no further attempt can help after err, the error of an attempt.
	// The step has then failed, as after its last attempt. It is not asked about undos. It
	// must be pure. A panic counts as false. Nil means that no error is permanent.
	//
	// A function can say so itself, with [saga.Permanent] or [saga.Rejected].
	Permanent func(err error) bool
}

// Retry sets how often the step is tried.
func (s *StepRef[In, Out]) Retry(p RetryPolicy) *StepRef[In, Out] {
	field := "step " + s.step.Name + ": Retry."
	if p.Attempts < 0 {
		s.draft.Problem(fmt.Errorf("%sAttempts: %d is negative", field, p.Attempts))
	}
	if err := checkBackoff(p.Backoff); err != nil {
		s.draft.Problem(fmt.Errorf("%sBackoff%w", field, err))
	}
	s.step.Policy = graph.Policy(p)
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
		return fmt.Errorf(".Base: %w", graph.TooLong(b.Base))
	case b.Cap > MaxDuration:
		return fmt.Errorf(".Cap: %w", graph.TooLong(b.Cap))
	case b.Cap > 0 && b.Cap < b.Base:
		return fmt.Errorf(".Cap: %v is less than Base %v", b.Cap, b.Base)
	case !(b.Jitter >= 0 && b.Jitter <= 1): // written so that NaN is rejected
		return fmt.Errorf(".Jitter: %v is not in 0 to 1", b.Jitter)
	}
	return nil
}
