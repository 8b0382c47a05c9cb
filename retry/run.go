package retry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A run is the state of one call under the client's policy, over HTTP or
// anything else. It belongs to the goroutine of the call.
type run struct {
	client *Client
	task   Task
	limits Limits // of the call, or else of the client

	caller   context.Context // the caller's, as the observer left it
	start    time.Time
	deadline time.Time

	tally    tally
	attempts int // begun; repetitions by the transport count
	retries  int // the attempts that count against MaxAttempts
	polls    int // the attempts that ask a callee that still runs the call

	refused bool          // a connection was refused
	span    time.Duration // the waits after that are spread over it

	parent        [16]byte // the record that the call is made for; zero: none
	callerRetries bool     // the inbound request is retried by its caller

	safe      bool // may be sent again although it may have taken effect
	once      bool // may not be sent again: its body cannot be read again
	polling   bool
	paid      bool // the budget paid for the attempt
	retryable bool

	target     Target          // of the requests, if the call is observed
	attempt    Attempt         // the running one
	attempting context.Context // its ctx; the caller's before the first
	begun      time.Time

	asked time.Duration // the last Retry-After

	calls *Calls        // of the caller's ctx; nil: none
	noted func(Outcome) // ends what calls has of the run; nil: nothing
	reads bool          // it asks for no effect
}

// resume takes in that the inbound request in ctx is a rerun: its earlier run may have made
// the call. reads says that the call asks for no effect.
func (r *run) resume(ctx context.Context, reads bool) {
	r.task.Resumed = r.task.Resumed || isRerun(ctx) && !reads
}

func isRerun(ctx context.Context) bool {
	in, _ := wire.FromContext(ctx)
	return in.Rerun
}

// open starts the clock of the call that r.task is, and notes it in the Calls of ctx; call is
// nil if it is not one over HTTP.
func (r *run) open(ctx context.Context, c *Client, call *Call) {
	c = c.made()
	r.client = c
	r.note(ctx, call)
	r.start = time.Now()
	r.limits = r.task.Limits.fillFrom(&c.cfg)
	r.deadline = r.start.Add(r.limits.Timeout)
	if o := c.cfg.Observer; o != nil {
		ctx = o.CallStarted(ctx, r.event())
	}
	r.caller, r.attempting = ctx, ctx
	if r.task.Resumed {
		r.tally.maybe, r.tally.why = true, "an earlier run may have sent it"
	}
	in, inbound := wire.FromContext(ctx)
	r.parent, r.callerRetries = in.Parent, in.CallerRetries
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
	r.observeStart(Attempt{
		Number: r.attempts, Timeout: r.attemptTimeout(),
		CallerRetries: r.callerRetries || r.safe && r.limits.MaxAttempts > 1,
	})
}

// observeStart tells the observer that attempt a begins.
func (r *run) observeStart(a Attempt) {
	r.attempt, r.attempting = a, r.caller
	if o := r.client.cfg.Observer; o != nil {
		e := r.event()
		e.Attempt, e.Target = a, r.target
		r.attempting = o.AttemptStarted(r.caller, e)
	}
}

// noteRepeats notes that net/http delivered the request several times, before it had the answer resp. The answer
// speaks for the last delivery alone, and nobody knows what became of the others. HTTP/2 repeats only what the callee
// has not processed, and an attempt without an answer has a verdict about all of its deliveries.
func (r *run) noteRepeats(resp *http.Response, deliveries int) {
	if deliveries > 1 && resp != nil && resp.ProtoMajor == 1 {
		r.tally.add(Verdict{Outcome: Unknown, Evidence: "a connection broke after the request was written, and net/http sent it again"})
	}
}

// end adds the end of the attempt to the run and decides what follows. The call is sent
// again after wait, or it ends with stop as its cause. stop is nil if err, the attempt's
// own error, is the cause. The attempt may have had several deliveries.
func (r *run) end(v Verdict, deliveries int, err error) (wait time.Duration, again bool, stop error) {
	if repeats := deliveries - 1; repeats > 0 {
		r.attempts += repeats
		r.retries += repeats
	}
	r.tally.add(v)
	r.asked = v.RetryAfter
	r.retryable = v.Action != Stop && !v.NotRetryable
	switch {
	case v.NotRetryable:
		return 0, false, ErrNotRetryable
	case v.Action == Stop:
		return 0, false, nil
	}
	if ended := r.checkTime(time.Now()); ended != nil {
		return 0, false, ended
	}
	switch {
	case !r.safe && v.Outcome != NotSent && v.Outcome != Rejected: // of this attempt
		r.retryable = false
		return 0, false, nil
	case r.once:
		return 0, false, nil
	}
	return r.bookNext(v)
}

// bookNext books a retry or a poll, if one is left, and returns the wait before it.
func (r *run) bookNext(v Verdict) (wait time.Duration, again bool, stop error) {
	r.polling = v.Action == Wait
	if r.polling {
		if r.polls == r.client.cfg.MaxPolls {
			return 0, false, ErrStillInProgress
		}
		wait = r.client.cfg.Poll.wait(r.polls+1, r.client.cfg.Rand())
	} else {
		switch {
		case r.retries+1 >= r.limits.MaxAttempts:
			return 0, false, nil
		case r.callerRetries && v.Outcome != NotSent: // an attempt that nobody saw multiplies nothing
			return 0, false, ErrCallerRetries
		}
		wait = r.backOff(v)
	}
	if v.RetryAfter > r.client.cfg.RetryAfterCap {
		return 0, false, fmt.Errorf("%w: %v, at most %v", ErrRetryAfter, v.RetryAfter, r.client.cfg.RetryAfterCap)
	}
	wait = max(r.cut(wait), later(v.RetryAfter, r.client.cfg.Rand()))
	if stop := r.tooLong(wait); stop != nil {
		return 0, false, stop
	}
	if r.polling {
		r.polls++
		return wait, true, nil
	}
	if r.paid = !v.Refused; r.paid && !r.client.cfg.Budget.take(r.task.Service) {
		return 0, false, ErrBudgetExhausted
	}
	r.retries++
	return wait, true, nil
}

// backOff returns the wait before a retry.
//
// Calls that were refused a connection come back when the service does, all of them, and no budget
// holds them back. The first wait of such a call is a part of a span that grows with the number of
// these calls. Later waits keep the calls apart as the first one did: they are not shorter than the
// span, and at least half as long as they can be. So the attempts last for twice as long as those
// with full jitter.
func (r *run) backOff(v Verdict) time.Duration {
	b, n, random := r.client.cfg.Backoff, r.retries+1, r.client.cfg.Rand()
	if !v.Refused {
		return b.wait(n, random)
	}
	first := !r.refused
	if r.refused = true; first {
		r.span, random = r.client.cfg.Budget.spread(r.task.Service, b.Cap, random)
	}
	longest, left := max(b.longest(n), r.span), max(time.Until(r.deadline)-leastAttempt, minWait)
	if first || longest > left {
		longest = min(longest, left)
		return max(longest-part(longest, b.Jitter*random), minWait)
	}
	return max(b.wait(n, random/2), r.span)
}

// takeBack undoes what next booked for an attempt that will not be made.
func (r *run) takeBack() {
	if r.polling {
		return
	}
	r.retries--
	if r.paid {
		r.client.cfg.Budget.refund(r.task.Service)
	}
}

// remainingAttempts is how many attempts may be made, with the one that is begun.
func (r *run) remainingAttempts() int {
	if r.callerRetries {
		return 1
	}
	return max(r.limits.MaxAttempts-r.retries, 1)
}

// leastAttempt is the time that a wait leaves for the attempt after it.
const leastAttempt = 50 * time.Millisecond

// cut returns a wait of the client's own, or less if the call would have no time for an attempt
// after it: how long such a wait is is chance, and must not end the call.
func (r *run) cut(wait time.Duration) time.Duration {
	last := time.Until(r.deadline) - leastAttempt
	if wait > last && last >= minWait {
		return last
	}
	return wait
}

// tooLong returns why no attempt can follow the wait; nil if one can.
func (r *run) tooLong(wait time.Duration) error {
	switch {
	case r.isExpired(time.Now().Add(wait)):
		return ErrKeyExpired
	case wait >= time.Until(r.deadline):
		return ErrDeadline
	}
	return nil
}

// isExpired reports whether the callee may have forgotten by then what it may have done.
func (r *run) isExpired(then time.Time) bool {
	if r.task.Expires.IsZero() || then.Before(r.task.Expires) {
		return false
	}
	return r.tally.maybe || r.attempts == 0
}

// checkTime returns why no further attempt may begin at the time now; nil if one may. The
// end of the caller's ctx goes before the client's own reasons.
func (r *run) checkTime(now time.Time) error {
	switch {
	case r.caller.Err() != nil:
		return endOf(r.caller)
	case r.isExpired(now):
		return ErrKeyExpired
	case !now.Before(r.deadline):
		return ErrDeadline
	}
	return nil
}

// endOf returns why ctx has ended.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(cause, err): // no reason of the caller's own
		return ErrDeadline
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrDeadline, cause)
	case errors.Is(cause, err):
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// attemptTimeout returns how long the attempt that begins may take.
func (r *run) attemptTimeout() time.Duration {
	return min(r.limits.AttemptTimeout, r.deadline.Sub(r.begun))
}

// reuseTimeout returns how long the attempt may take over a connection that was used before. Such
// a connection can be dead. So the attempt leaves a third of the call's time for the next one,
// unless it is the last.
func (r *run) reuseTimeout() time.Duration {
	if !r.polling && (!r.safe || r.remainingAttempts() == 1) {
		return r.attempt.Timeout
	}
	left := r.deadline.Sub(r.begun)
	return min(r.attempt.Timeout, left-left/3)
}

// attemptEnd returns when the running attempt must end, at the end of its own time or of
// the call's, and the error that is the cause. No other context has the call's deadline,
// because no wait begins that would reach it.
func (r *run) attemptEnd() (at time.Time, cause error) {
	at = r.begun.Add(r.attempt.Timeout)
	if !at.Before(r.deadline) {
		return r.deadline, ErrDeadline
	}
	return at, ErrAttemptTimeout
}

// limitAttempt returns ctx with the end of the running attempt.
func (r *run) limitAttempt(ctx context.Context) (context.Context, context.CancelFunc) {
	at, cause := r.attemptEnd()
	if end, ok := r.caller.Deadline(); ok && end.Equal(at) {
		return context.WithCancel(ctx) // ends by itself then, with the caller's own cause
	}
	return context.WithDeadlineCause(ctx, at, cause)
}

// blame adds to err why the attempt's ctx has ended, where a transport reports something
// else then. The clock decides as well: a transport that gives the deadline to its
// connection can fail before the timer of ctx has run.
func (r *run) blame(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if at, late := r.attemptEnd(); cause == nil && !time.Now().Before(at) {
		cause = late
	}
	if cause != nil && !errors.Is(cause, ErrAttemptTimeout) && errors.Is(r.caller.Err(), context.DeadlineExceeded) {
		cause = endOf(r.caller)
	}
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// budgetSuccess tells the budget that the service is well.
func (r *run) budgetSuccess() { r.client.cfg.Budget.earn(r.task.Service) }

// fail returns the call's error, with the fields that every kind of call has. err is the
// error of the last attempt, or nil if there was none. stop is why no further attempt
// follows.
func (r *run) fail(err, stop error) *Error {
	e := &Error{
		Outcome: r.tally.outcome(), Evidence: r.tally.why,
		Service: r.task.Service, Operation: r.task.Operation, Key: r.task.Key,
		calls:    r.calls,
		Attempts: r.attempts, RetryAfter: r.asked, Retryable: r.retryable && !errors.Is(stop, ErrKeyExpired),
	}
	if e.Evidence == "" && r.attempts == 0 {
		e.Evidence = "no attempt was begun"
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
