package sdk

import (
	"errors"

	"github.com/fanonce/fanonce/retry"
)

// A testimony is what the error of a branch's function says of its effect. The error of one
// call must not speak for another: the function may have made two, and return what the
// second one got.
type testimony struct {
	calls *retry.Calls // that the branch made

	unclear  bool // a part says nothing of the calls, or may have had an effect
	rejected bool
}

// judgeFunction returns what err and the calls that the function made say together. It is
// Unknown, unless err consists of errors of calls, and no call took effect or may have.
func judgeFunction(err error, calls *retry.Calls) (retry.Outcome, string) {
	t := testimony{calls: calls}
	t.hear(err)
	made := calls.Outcome()
	switch {
	case errors.Is(err, ErrPanic):
		return retry.Unknown, "the branch panicked"
	case made == retry.Unknown, made == retry.Completed:
		return retry.Unknown, "a call of the branch took effect, or may have"
	case t.unclear:
		return retry.Unknown, "an error that does not say what it left behind"
	case t.rejected, made == retry.Rejected:
		return retry.Rejected, "all that it called was refused or not sent"
	default:
		return retry.NotSent, "nothing that it called was sent"
	}
}

// hear takes in err with all that it wraps, down to what says an outcome.
func (t *testimony) hear(err error) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree
	case *FanoutError:
		for _, r := range e.Results {
			if r.Err != nil {
				t.take(r.Outcome)
			}
		}
	case *DependencyError: // what was not begun for it leaves nothing
	case *retry.Error:
		t.hearCall(e)
	case unvetoed:
		t.hear(e.err)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			t.hear(part)
		}
		t.unclear = t.unclear || len(e.Unwrap()) == 0
	case interface{ Unwrap() error }:
		t.hear(e.Unwrap())
	default: // nil too: an error that wraps nothing
		t.unclear = true
	}
}

// hearCall takes in the error of a call. An error without an attempt is a refusal of this
// package, or the function's own word. One with attempts that the branch did not make is
// about another call.
func (t *testimony) hearCall(e *retry.Error) {
	if e.Attempts > 0 && !t.calls.Made(e) {
		t.unclear = true
		return
	}
	t.take(e.Outcome)
}

func (t *testimony) take(o retry.Outcome) {
	t.unclear = t.unclear || o == retry.Unknown || o == retry.Completed
	t.rejected = t.rejected || o == retry.Rejected
}
