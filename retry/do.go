package retry

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Do makes a call that is not HTTP under the client's policy: attempts,
// backoff, deadline, budget, allowance and the outcome are as for
// [Client.Send]. fn makes one attempt, with a context that ends with it; it
// must send task.Key with every attempt, where task has one.
//
// classify says what the end of an attempt means; nil means [Classify]. Do
// returns fn's value once a verdict is Completed and fn's error nil, and else
// the last value with an [*Error] whose cause is fn's error. It blocks until
// then, and starts no goroutine.
func Do[T any](
	ctx context.Context, c *Client, task Task,
	fn func(ctx context.Context, attempt Attempt) (T, error), classify func(T, error) Verdict,
) (T, error) {
	r := run{task: task, safe: !task.Key.IsZero()}
	r.resume(ctx, false)
	r.note(ctx, nil)
	r.open(ctx, c)
	if classify == nil {
		classify = Classify[T]
	}
	var value T
	var failed *Error
	switch stop := r.ended(r.start); {
	case r.client == unmade:
		failed = r.fail(nil, errUnmade)
	case fn == nil:
		failed = r.fail(nil, fmt.Errorf("%w: no function to call", ErrInvalid))
	case stop != nil:
		r.retryable = true
		failed = r.fail(nil, stop)
	default:
		value, failed = attempts(&r, fn, classify)
	}
	r.noteEnd(failed)
	r.observeCall(nil, failed)
	if failed != nil {
		return value, failed
	}
	return value, nil
}

// Classify is the verdict of a call of which only value and error are known:
// without an error it is Completed; a failure to connect is NotSent; any other
// error is Unknown, and retried. An [*Error] in err speaks for itself: it has the outcome,
// and says whether a retry can help.
func Classify[T any](_ T, err error) Verdict {
	var made *Error
	switch {
	case err == nil:
		return Verdict{Outcome: Completed}
	case errors.As(err, &made):
		return made.verdict()
	}
	return verdictOf(err, &evidence{})
}

// verdict returns the end of the call as that of one attempt of a call around it. The
// cause of e will not do: it is how the last attempt ended.
func (e *Error) verdict() Verdict {
	v := Verdict{Outcome: e.Outcome, Evidence: e.Evidence, RetryAfter: e.RetryAfter, Vetoed: errors.Is(e.Err, ErrVetoed)}
	if e.Retryable {
		v.Action = Retry
	}
	return v
}

func attempts[T any](
	r *run, fn func(context.Context, Attempt) (T, error), classify func(T, error) Verdict,
) (T, *Error) {
	for {
		value, err := attempt(r, fn)
		v := classify(value, err)
		if v.Outcome == Completed && err == nil {
			v.Action = Stop
		} else if err == nil {
			err = errors.New("retry: no error, but classified as " + v.Outcome.String())
		}
		wait, again, stop := r.end(v, 1, 0, err)
		r.observeAttempt(v, 1, wait, nil, err)
		switch {
		case again && r.sleep(wait):
		case again:
			r.takeBack()
			return value, r.fail(err, r.ended(time.Now()))
		case v.Outcome == Completed && err == nil:
			r.budgetSuccess()
			return value, nil
		default:
			return value, r.fail(err, stop)
		}
	}
}

func attempt[T any](r *run, fn func(context.Context, Attempt) (T, error)) (T, error) {
	r.begin()
	ends, cause := r.attemptEnd()
	ctx, cancel := context.WithDeadlineCause(r.attempting, ends, cause)
	defer cancel()
	value, err := fn(ctx, r.attempt)
	if err != nil {
		err = blame(ctx, err)
	}
	return value, err
}

// sleep waits; false if the call's time ended first.
func (r *run) sleep(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.caller.Done():
		return false
	}
}
