package saga

import (
	"errors"

	"github.com/fanonce/fanonce/retry"
)

// Rejected returns err as the error of a function that knows that it had no effect and
// never will; nor had an earlier try of it. The step is not tried again, and is not
// undone. From the function of an undo it means that the undo is refused: the saga is
// stuck. The result wraps a *retry.Error and err. Nil stays nil.
func Rejected(err error) error { return say(retry.Rejected, false, err) }

// NotSent returns err as the error of a function that knows that this try of it had no
// effect. The step is tried again until its time is up. It is not undone, unless an
// earlier try may have had an effect. The result wraps a *retry.Error and err. Nil stays
// nil.
func NotSent(err error) error { return say(retry.NotSent, false, err) }

// Permanent returns err as the error of a function that may have had an effect, and that
// another try cannot help. The step is not tried again, and is undone. Without an undo
// the saga is stuck, unless the step is ReadOnly or Irreversible. An undo that says so
// makes the saga stuck, too. The result wraps a *retry.Error and err. Nil stays nil.
func Permanent(err error) error { return say(retry.Unknown, true, err) }

// A functionError is what a function says itself of its effect, whatever it called.
type functionError struct {
	failed    *retry.Error
	permanent bool
}

func (e *functionError) Error() string { return e.failed.Error() }
func (e *functionError) Unwrap() error { return e.failed }

// say returns err with the outcome that the function vouches for. What a callee answered
// is kept for people.
func say(outcome retry.Outcome, permanent bool, err error) error {
	if err == nil {
		return nil
	}
	failed := &retry.Error{
		Outcome: outcome, Evidence: "the function says so", Err: err, Retryable: outcome == retry.NotSent,
	}
	var answer *retry.Error
	if errors.As(err, &answer) {
		failed.Status, failed.Detail, failed.RetryAfter = answer.Status, answer.Detail, answer.RetryAfter
	}
	return &functionError{failed: failed, permanent: permanent}
}
