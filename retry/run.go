package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A run is the state of one call under the client's policy, over HTTP or
// anything else. It belongs to the goroutine of the call.
type run struct {
	client *Client
	task   Task

	caller   context.Context // the caller's, as the tracer left it
	start    time.Time
	deadline time.Time

	tally    tally
	attempts int // begun, with what the transport repeated by itself
	retries  int // of them, those that count against limit
	polls    int // of them, questions to a run in progress
	limit    int // of attempts that are not polls
	units    int // attempts still allowed here and at every hop below
	spent    int // units that the attempt under way may use up

	safe      bool // may be sent again although it may have taken effect
	polling   bool
	retryable bool

	attempt    Attempt         // under way
	attempting context.Context // in it; caller's before the first
	begun      time.Time

	asked time.Duration // the last Retry-After
}

// open starts the clock of the call that r.task is.
func (r *run) open(ctx context.Context, c *Client) {
	r.client = c
	r.start = time.Now()
	r.deadline = r.start.Add(c.cfg.Timeout)
	if c.tracer != nil {
		ctx = c.tracer.CallStarted(ctx, CallStart{Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key})
	}
	r.caller, r.attempting = ctx, ctx
	if r.task.Resumed {
		r.tally.maybe, r.tally.why = true, "an earlier process may have sent it"
	}
	allowance := c.cfg.Allowance
	in, inbound := wire.FromContext(ctx)
	if inbound && in.Allowance >= 0 {
		allowance = in.Allowance
	}
	r.units = 1 + allowance
	r.limit = min(c.cfg.MaxAttempts, r.units)
	if at, ok := ctx.Deadline(); ok && at.Before(r.deadline) {
		r.deadline = at
	}
	if inbound && !in.Deadline.IsZero() && in.Deadline.Before(r.deadline) {
		r.deadline = in.Deadline
	}
}

// begin opens the next attempt and works out what it may tell the callee.
func (r *run) begin() {
	r.begun = r.start
	if r.attempts++; r.attempts > 1 {
		r.begun = time.Now()
	}
	a := Attempt{Number: r.attempts, Timeout: min(r.client.cfg.AttemptTimeout, r.deadline.Sub(r.begun))}
	r.spent = 0
	if !r.polling { // the callee answers a poll from its record: nothing below multiplies
		left := max(min(r.limit-r.retries, r.units), 1)
		a.Allowance = max(r.units/left-1, 0)
		r.spent = 1 + a.Allowance
		r.units -= r.spent
	}
	r.attempt, r.attempting = a, r.caller
	if r.client.tracer != nil {
		r.attempting = r.client.tracer.AttemptStarted(r.caller, AttemptStart{
			Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key, Attempt: a,
		})
	}
}

// end takes in how the attempt ended and decides what follows: again after
// wait, or the end of the call with stop as its cause; stop is nil where err,
// the attempt's own, says enough.
func (r *run) end(v Verdict, deliveries int, err error) (wait time.Duration, again bool, stop error) {
	if repeats := deliveries - 1; repeats > 0 {
		r.attempts += repeats
		r.retries += repeats
		r.units -= repeats * r.spent
	}
	if v.Outcome == NotSent {
		r.units += r.spent // nobody has used them
	}
	r.tally.add(v)
	r.asked = v.RetryAfter
	r.retryable = v.Action != Stop
	if v.Action == Stop {
		return 0, false, nil
	}
	if ended := r.ended(time.Now()); ended != nil {
		return 0, false, ended
	}
	if !r.safe && v.Outcome != NotSent {
		r.retryable = false
		return 0, false, nil
	}
	return r.next(v)
}

// next books a retry or a poll, if one is left, and returns the wait before it.
func (r *run) next(v Verdict) (wait time.Duration, again bool, stop error) {
	r.polling = v.Action == Wait
	if r.polling {
		if r.polls == r.client.cfg.MaxPolls {
			return 0, false, ErrStillInProgress
		}
		wait = r.client.cfg.Poll.wait(r.polls+1, r.client.cfg.Rand())
	} else {
		if r.retries+1 >= r.limit || r.units < 1 {
			return 0, false, r.whyLimited()
		}
		wait = r.client.cfg.Backoff.wait(r.retries+1, r.client.cfg.Rand())
	}
	if v.RetryAfter > r.client.cfg.RetryAfterCap {
		return 0, false, fmt.Errorf("%w: %v, at most %v", ErrRetryAfter, v.RetryAfter, r.client.cfg.RetryAfterCap)
	}
	wait = max(wait, later(v.RetryAfter, r.client.cfg.Rand()))
	if wait >= r.remaining() {
		return 0, false, ErrDeadline
	}
	if r.polling {
		r.polls++
		return wait, true, nil
	}
	if !r.client.cfg.Budget.take(r.task.Service, r.client.cfg.Now()) {
		return 0, false, ErrBudgetExhausted
	}
	r.retries++
	return wait, true, nil
}

// whyLimited names the inbound allowance if it, and not MaxAttempts, ended the call.
func (r *run) whyLimited() error {
	if r.limit < r.client.cfg.MaxAttempts || r.retries+1 < r.limit {
		return ErrAllowance
	}
	return nil
}

// ended returns why no further attempt may begin at the time now: the caller's
// own reason before the client's.
func (r *run) ended(now time.Time) error {
	err := r.caller.Err()
	if err == nil {
		if !now.Before(r.deadline) {
			return ErrDeadline
		}
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrDeadline
	}
	cause := context.Cause(r.caller)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

func (r *run) remaining() time.Duration { return time.Until(r.deadline) }

// attemptEnd returns when the attempt under way must end: with its own time or
// the call's, whichever is first; and that one's error as the cause. No other
// context has the call's end: no wait begins that would reach it.
func (r *run) attemptEnd() (at time.Time, cause error) {
	at = r.begun.Add(r.client.cfg.AttemptTimeout)
	if !at.Before(r.deadline) {
		return r.deadline, ErrDeadline
	}
	return at, ErrAttemptTimeout
}

// budgetSuccess tells the budget that the service is well.
func (r *run) budgetSuccess() { r.client.cfg.Budget.earn(r.task.Service) }

// fail returns the call's error with what every kind of call knows. err is of
// the last attempt, nil if there was none; stop is why there is no further one.
func (r *run) fail(err, stop error) *Error {
	e := &Error{
		Outcome: r.tally.outcome(), Evidence: r.tally.why,
		Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key,
		Attempts: r.attempts, RetryAfter: r.asked, Retryable: r.retryable,
	}
	switch {
	case stop == nil || errors.Is(err, stop):
		e.Err = err
	case err == nil:
		e.Err = stop
	default:
		e.Err = fmt.Errorf("%w: %w", stop, err)
	}
	return e
}
