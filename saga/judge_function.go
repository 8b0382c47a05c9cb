package saga

import (
	"errors"
	"strings"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// judgeFunction returns what the error of a function means that made calls. It is
// Unknown, unless the function says otherwise, or the error speaks for each of the calls.
func judgeFunction(err error, calls *retry.Calls) verdict {
	v := verdict{detail: detail(err)}
	var failed *retry.Error
	if errors.As(err, &failed) {
		v.status, v.code, v.after = failed.Status, failed.Code, failed.RetryAfter
		v.problem = cut(strings.ToValidUTF8(failed.Detail, "\uFFFD"), MaxDetailBytes)
	}
	if said := saidBy(err); said != nil {
		v.outcome, v.again, v.deadEnd = said.failed.Outcome, said.failed.Outcome == retry.NotSent, said.permanent
		v.stop = said.permanent
		return v
	}
	t := testimony{calls: calls}
	t.hear(err)
	v.outcome, v.again = t.outcome(), t.again
	if v.outcome == retry.Unknown {
		v.lost = t.expired
		// What is not known of the calls either the error explains, or a further try may.
		v.deadEnd = !t.again && calls.Unknown() <= t.deadEnds
	}
	return v
}

// saidBy returns what the function says itself, if that is all that err consists of.
func saidBy(err error) *functionError {
	for ; err != nil; err = errors.Unwrap(err) { // it does not look into joined errors
		if said, ok := err.(*functionError); ok { //nolint:errorlint // it is the loop of errors.As
			return said
		}
	}
	return nil
}

// A testimony is what the parts of a function's error say, together with the calls.
type testimony struct {
	calls *retry.Calls

	foreign  bool // a part says nothing of the calls, or may have had an effect
	rejected bool
	again    bool // another try can end better
	expired  bool // a callee has forgotten the key
	deadEnds int  // parts by callees that do not know themselves, and will not
}

// outcome returns what is known of the function's effect.
func (t *testimony) outcome() retry.Outcome {
	switch made := t.calls.Outcome(); {
	case t.foreign, made == retry.Unknown, made == retry.Completed:
		return retry.Unknown
	case t.rejected, made == retry.Rejected:
		return retry.Rejected
	default:
		return retry.NotSent
	}
}

// hear takes in err with all that it wraps, down to what says an outcome.
func (t *testimony) hear(err error) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree
	case *functionError:
		t.take(e.failed.Outcome, e.failed.Outcome == retry.NotSent)
	case *sdk.FanoutError:
		for _, r := range e.Results {
			t.hearBranch(r)
		}
	case *retry.Error:
		t.hearCall(e)
	case *Error:
		t.hearChild(e)
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			t.hear(part)
		}
		t.foreign = t.foreign || len(e.Unwrap()) == 0
	case interface{ Unwrap() error }:
		t.hear(e.Unwrap())
	default: // nil too: an error that wraps nothing
		t.foreign, t.again = true, true
	}
}

// take takes in one part.
func (t *testimony) take(o retry.Outcome, again bool) {
	t.foreign = t.foreign || o == retry.Unknown || o == retry.Completed
	t.rejected = t.rejected || o == retry.Rejected
	t.again = t.again || again
}

// hearBranch takes in how a branch of a fan-out ended. A branch that was not begun is no
// call, and leaves nothing.
func (t *testimony) hearBranch(r sdk.Result) {
	var failed *retry.Error
	switch {
	case r.Err == nil: // the calls say what it did
	case errors.As(r.Err, &failed) && r.Outcome == retry.NotSent && failed.Attempts == 0:
		t.take(retry.NotSent, sdk.Resumable(r.Err))
	case r.Outcome == retry.Unknown:
		t.foreign = true
		t.hear(r.Err)
	default:
		t.hear(r.Err)
	}
}

// hearCall takes in the error of a call. One that the function has from elsewhere, or
// made by itself, says nothing of the calls that are known here.
func (t *testimony) hearCall(e *retry.Error) {
	if !t.calls.Made(e) {
		t.take(retry.Unknown, true)
		return
	}
	again := sdk.Resumable(e)
	if deadEnd(e) {
		again = false
		t.deadEnds++
	}
	t.expired = t.expired || e.Outcome == retry.Unknown && errors.Is(e, retry.ErrKeyExpired)
	t.take(e.Outcome, again)
}

// hearChild takes in how a saga ended that the function ran. One that is compensated
// left nothing, and stays so. One that is stuck may be moved on by people.
func (t *testimony) hearChild(e *Error) {
	ran := t.calls.Ended(e.ID)
	if e.Status == Compensated && ran {
		t.take(retry.Rejected, false)
		return
	}
	t.take(retry.Unknown, e.Resumable() || !ran)
}

// deadEnd reports whether the callee does not know what became of the call, and will not.
func deadEnd(e *retry.Error) bool {
	return e.Outcome == retry.Unknown && !e.Retryable && answered(e.Status)
}
