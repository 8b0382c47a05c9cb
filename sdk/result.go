package sdk

import (
	"errors"
	"maps"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// A Result is what became of one branch of a fan-out.
type Result struct {
	// Name is the branch's: "service.operation[discriminators]", or what
	// GoFunc was given.
	Name string
	// Outcome is what is known of the branch's effect.
	Outcome retry.Outcome
	// Err is nil, or has a *retry.Error with that Outcome.
	Err error
	// Value is what the branch returned, an Out; nil if Err is not nil.
	Value any
}

// Results returns the results of the branches that have one, by name. Of two
// branches with one name, which is a mistake, the first counts.
func (f *Fanout) Results() map[string]Result {
	f = f.made()
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make(map[string]Result, len(f.branches))
	for name, b := range f.names {
		select {
		case <-b.round.done:
			results[name] = b.round.result
		default:
		}
	}
	return maps.Clone(results)
}

// outcomeOf returns what err says of the effect of what returned it.
func outcomeOf(err error) (retry.Outcome, string) {
	var failed *retry.Error
	if errors.As(err, &failed) {
		return failed.Outcome, failed.Evidence
	}
	if errors.Is(err, ErrPanic) {
		return retry.Unknown, "the branch panicked"
	}
	return retry.Unknown, "an error that says no outcome"
}

// withOutcome returns err, if a *retry.Error with that outcome is in it, or one
// around it.
func withOutcome(b *branch, outcome retry.Outcome, evidence string, err error) error {
	var failed *retry.Error
	if errors.As(err, &failed) && failed.Outcome == outcome {
		return err
	}
	return &retry.Error{
		Outcome: outcome, Evidence: evidence, Operation: b.name, Key: childkey.Key{},
		Err: overruled{err: err, again: Resumable(err) || b.made.Unknown() > 0},
	}
}

// overruled is an error whose own outcome does not hold: it is shown, and
// matches whatever it matched but the outcome.
type overruled struct {
	err   error
	again bool // another run can end otherwise
}

func (e overruled) Error() string { return e.err.Error() }

// Is hides the outcome sentinels; Unwrap would show them.
func (e overruled) Is(target error) bool {
	switch target {
	case retry.ErrNotSent, retry.ErrRejected, retry.ErrUnknown, retry.ErrCompleted:
		return false
	}
	return errors.Is(e.err, target)
}

// As hides the *retry.Error that says the outcome.
func (e overruled) As(target any) bool {
	if _, ok := target.(**retry.Error); ok {
		return false
	}
	return errors.As(e.err, target)
}
