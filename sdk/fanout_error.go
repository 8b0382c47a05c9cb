package sdk

import (
	"fmt"
	"strings"
)

// A FanoutError says what became of every branch of a fan-out of which at
// least one failed. With errors.Is and errors.As it matches what any of the
// failed ones does; where the outcome of one of them matters, look at Results.
type FanoutError struct {
	// Results are the results of all branches, those that succeeded too, in
	// the order in which they were given.
	Results []Result
}

// Error names every branch with its outcome, and the errors of those that
// failed.
func (e *FanoutError) Error() string {
	failed := len(e.Unwrap())
	parts := make([]string, len(e.Results))
	for i, r := range e.Results {
		parts[i] = r.Name + " " + r.Outcome.String()
		if r.Err != nil {
			parts[i] += " (" + r.Err.Error() + ")"
		}
	}
	return fmt.Sprintf("sdk: %d of %d branches failed: %s", failed, len(e.Results), strings.Join(parts, "; "))
}

// Unwrap returns the errors of the branches that failed.
func (e *FanoutError) Unwrap() []error {
	var errs []error
	for _, r := range e.Results {
		if r.Err != nil {
			errs = append(errs, r.Err)
		}
	}
	return errs
}
