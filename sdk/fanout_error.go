package sdk

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
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

// Unwrap returns the errors of the branches that failed. Where another run can
// help one of them none of them shows what its callee vetoed for itself
// ([retry.ErrVetoed]): it is no veto against that run.
func (e *FanoutError) Unwrap() []error {
	var errs []error
	again := false
	for _, r := range e.Results {
		if r.Err != nil {
			errs = append(errs, r.Err)
			again = again || Resumable(r.Err) && !errors.Is(r.Err, retry.ErrVetoed)
		}
	}
	if again {
		for i, err := range errs {
			if errors.Is(err, retry.ErrVetoed) {
				errs[i] = unvetoed{err}
			}
		}
	}
	return errs
}

// An unvetoed is an error that matches all that err does but a veto.
type unvetoed struct{ err error }

func (u unvetoed) Error() string { return u.err.Error() }

func (u unvetoed) Is(target error) bool {
	return target != retry.ErrVetoed && target != wire.ErrVetoed && errors.Is(u.err, target)
}

func (u unvetoed) As(target any) bool { return errors.As(u.err, target) }
