// Package retry makes one call in many attempts under one key. In the end it reports what is
// known about the effect of the call ([Outcome]).
//
// [New] returns a [Client]. [Client.Send] makes a call over HTTP, and returns a complete 2xx
// answer or an [*Error]. [Client.Do] takes an http.Request. [Client.RoundTripper] is the
// transport of an existing http.Client. [Do] retries a call that is not HTTP.
//
// [Config].Profile describes how a service takes keys. [StatusVerdict], [CodeVerdict] and
// [GRPCVerdict] show what each failure means, and whether it is retried.
//
// The package is built on go-retryablehttp. DESIGN.md lists the habits of that package which
// it does not share. It knows keys and the wire, but no fan-outs and no stores.
package retry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
)

// A Client makes calls. It is safe for concurrent use, and meant to be kept:
// its connections and its retry budget are shared by its calls. Make one with
// [New]: calls of a nil or zero Client end as NotSent, with [ErrConfig].
type Client struct {
	cfg     Config
	carrier carrier         // of its calls' keys
	own     *http.Transport // made by New; nil: the Config had one

	pauses   pauses
	unmarked sync.Map // the services that were warned about: string to true
}

// New returns a client, or an error wrapping [ErrConfig] and naming the field
// of cfg that it rejects. It does no I/O and starts no goroutine.
func New(cfg Config) (*Client, error) {
	given := cfg.Transport != nil
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, carrier: newCarrier(cfg.Profile)}
	if !given {
		c.own, _ = cfg.Transport.(*http.Transport)
	}
	return c, nil
}

// unmade stands for a Client that is nil or that [New] did not make. It has no limits, so
// it makes no calls.
var unmade = new(Client)

var errUnmade = fmt.Errorf("%w: the Client is nil, or was not made by New", ErrConfig)

// made returns c, or unmade if New did not make c.
func (c *Client) made() *Client {
	if c == nil || c.cfg.Budget == nil {
		return unmade
	}
	return c
}

// Send makes the call. It blocks until it has a complete 2xx answer, or stops with an
// [*Error]. Both ctx and [Config.Timeout] bound the call. An inbound request in ctx
// (wire.Inbound) bounds its time and its retries too. A complete answer wins over a ctx
// that ended meanwhile. Redirects are followed where they keep the method, stay on the same
// origin and are not the stored answer of a handler.
func (c *Client) Send(ctx context.Context, call Call) (*Response, error) {
	e := c.exchange(ctx, &call, true)
	if e.err != nil {
		return nil, e.err
	}
	a := e.last
	return &Response{Status: a.Status, Header: a.Header, Body: a.Body, Replayed: a.Replayed, Attempts: e.attempts}, nil
}

// Check returns the error for which Send would refuse the call before it sends anything, or
// nil. The error wraps [ErrInvalid], or [ErrConfig] for a Client that [New] did not make.
// It is for code that makes several calls or none at all. It does not read a Stream.
func (c *Client) Check(call Call) error {
	if c = c.made(); c == unmade {
		return errUnmade
	}
	var f frozenCall
	_, err := f.freeze(&call, &c.carrier)
	return err
}

// Close closes the idle connections of the client's own transport, with their goroutines.
// Call it when no more calls will be made. Calls that are running are not disturbed, and
// their connections are closed when they end. A [Config.Transport] belongs to the caller:
// Close leaves it alone. Close may be called again, and does nothing for a nil Client.
func (c *Client) Close() {
	if c != nil && c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// Refuse ends a call as NotSent because of err, before anything of it was sent. It is for
// code that checks more than a [Client] does before it makes a call. Observers hear of the
// call as of any other. Refuse returns the call's error.
func (c *Client) Refuse(ctx context.Context, task Task, err error) *Error {
	r := run{task: task}
	r.open(ctx, c, nil)
	failed := r.fail(nil, err)
	r.noteEnd(failed)
	r.observeCall(nil, failed)
	return failed
}

// A Call is one logical call over HTTP: one key and one frozen body, however
// many attempts it takes.
type Call struct {
	Method string      // required
	URL    string      // required, absolute: http or https; a fragment is not sent
	Header http.Header // copied; nil means none; without the headers of package wire and of the connection
	Body   []byte      // copied; nil means no body
	// Stream is a body that is too long for memory. Nil means Body. Do not set both.
	Stream *Stream

	// Key is sent on every attempt, as [Config.Profile] says. Without a Key a method that is
	// not idempotent by RFC 9110 section 9.2.2 is repeated only if nothing was sent, or if
	// the answer says that nothing was done, as 421, 425 and 429 do.
	Key childkey.Key
	// Cancels is the forward key that an undo cancels; the zero Key means none. It is
	// not sent to a service whose Profile does not name Idempotency-Cancels.
	Cancels childkey.Key
	// Service and Operation name the callee in errors and events, and Service
	// its retry budget. Both may be empty.
	Service, Operation string
	// FirstSent is when the call was first sent; zero means that nobody knows. Set it
	// only from something durable. It is sent as Idempotency-First-Sent, unless a Profile
	// does not name that header. A Profile with a Retention bounds the call by it.
	FirstSent time.Time
	// Limits are the call's own; the zero Limits are those of the [Config].
	Limits Limits
	// Resumed says that an earlier process may have sent the call: it starts as Unknown. A
	// ctx with the rerun of an inbound request ([wire.Inbound.Rerun]) says so of all its
	// calls, except those by a safe method (GET, HEAD, OPTIONS, TRACE).
	Resumed bool
	// Expires is when the callee may have forgotten the key, by this process's clock: no
	// attempt begins then, and the call ends with [ErrKeyExpired]. Zero means
	// [Profile.Expires] of FirstSent. Without a FirstSent it means never.
	Expires time.Time

	// of a call that was made of an *http.Request:
	owned bool         // Body is the call's own, and Header still has the client's headers
	given childkey.Key // the key that Header has
	url   *url.URL     // replaces URL; nil: URL
	host  string       // replaces the host of the URL; empty: that host
	close bool         // asks for the end of the connection after the answer
}

func (c *Call) task() Task {
	return Task{Service: c.Service, Operation: c.Operation, Key: c.Key, Resumed: c.Resumed, Expires: c.Expires, Limits: c.Limits}
}

// Limits are those of one call, where they differ from those of its client. A field that is zero
// means the one of [Config].
type Limits struct {
	MaxAttempts int           // as [Config.MaxAttempts]
	Timeout     time.Duration // as [Config.Timeout]; it may be longer
	// AttemptTimeout is as [Config.AttemptTimeout]. Set it together with a Timeout that is
	// meant for one slow attempt.
	AttemptTimeout time.Duration
}

// check returns an error wrapping ErrInvalid if a field is negative.
func (l Limits) check() error {
	switch {
	case l.MaxAttempts < 0:
		return fmt.Errorf("%w: Limits.MaxAttempts: %d is negative", ErrInvalid, l.MaxAttempts)
	case l.Timeout < 0:
		return fmt.Errorf("%w: Limits.Timeout: %v is negative", ErrInvalid, l.Timeout)
	case l.AttemptTimeout < 0:
		return fmt.Errorf("%w: Limits.AttemptTimeout: %v is negative", ErrInvalid, l.AttemptTimeout)
	}
	return nil
}

// fillFrom returns l with the limits of cfg where it has none.
func (l Limits) fillFrom(cfg *Config) Limits {
	fill(&l.MaxAttempts, cfg.MaxAttempts)
	fill(&l.Timeout, cfg.Timeout)
	fill(&l.AttemptTimeout, cfg.AttemptTimeout)
	return l
}

// An Answer is a complete answer.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // its first 64 KiB, decoded

	Keyed    bool // the call has a key
	Honoured bool // the callee says that it honoured the key
	Replayed bool // and that an earlier attempt had run

	conflict Verdict // [Profile.Conflict]
}

// A Response is a complete answer of 2xx.
type Response struct {
	Status   int
	Header   http.Header
	Body     []byte
	Replayed bool // the callee says that an earlier attempt had run
	Attempts int  // counts from 1; with every delivery that net/http repeated by itself
}

// A Task names a call that [Do] makes.
type Task struct {
	// Service and Operation are as in a [Call].
	Service, Operation string
	// Key is the call's idempotency key. Without one the call gets a second attempt only if
	// nothing was sent, or after a Rejected with the action Retry.
	Key childkey.Key
	// Resumed is as in a [Call], whatever the call does.
	Resumed bool
	// Expires is as in a [Call]. Zero means never.
	Expires time.Time
	// Limits are as in a [Call].
	Limits Limits
}

// An Attempt describes one attempt to the callee.
type Attempt struct {
	Number  int           // counts from 1
	Timeout time.Duration // what is left for this attempt, less over a used connection; 0: no limit of the client's
	// CallerRetries says that the call is retried here, or by a caller above, so that the
	// callee need not retry its own calls (wire.HeaderRetryAllowance).
	CallerRetries bool
}

// Do makes a call that is not HTTP, under the policy of c. Attempts, backoff, deadline,
// budget and outcome are the same as for [Client.Send]. fn makes one attempt,
// with a context that ends with the attempt. If task has a Key, fn must send it with every
// attempt.
//
// classify maps the end of an attempt to a Verdict; nil means [Classify]. Do returns fn's
// value when a verdict is Completed and fn's error is nil. Otherwise it returns the last
// value and an [*Error] whose cause is fn's error. It blocks until then, and starts no
// goroutine.
func Do[T any](
	ctx context.Context, c *Client, task Task,
	fn func(ctx context.Context, attempt Attempt) (T, error), classify func(T, error) Verdict,
) (T, error) {
	r := run{task: task, safe: !task.Key.IsZero()}
	r.resume(ctx, false)
	r.open(ctx, c, nil)
	if classify == nil {
		classify = Classify[T]
	}
	var value T
	var failed *Error
	switch stop := r.checkTime(r.start); {
	case r.client == unmade:
		failed = r.fail(nil, errUnmade)
	case fn == nil:
		failed = r.fail(nil, fmt.Errorf("%w: no function to call", ErrInvalid))
	case task.Limits.check() != nil:
		failed = r.fail(nil, task.Limits.check())
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

// Classify is the default classify of [Do]. Without an error the call is Completed. A
// failure to connect is NotSent. Any other error is Unknown, and the call is retried. An
// [*Error] in err speaks for itself: it has the outcome, and says whether a retry can help.
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
	v := Verdict{
		Outcome: e.Outcome, Evidence: e.Evidence, RetryAfter: e.RetryAfter,
		Refused: isRefused(e.Err), NotRetryable: errors.Is(e.Err, ErrNotRetryable),
	}
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
		wait, again, stop := r.end(v, 1, err)
		r.observeAttempt(v, 1, wait, nil, err)
		switch {
		case again && r.sleep(wait):
		case again:
			r.takeBack()
			return value, r.fail(err, r.checkTime(time.Now()))
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
	ctx, cancel := r.limitAttempt(r.attempting)
	defer cancel()
	value, err := fn(ctx, r.attempt)
	if err != nil {
		err = r.blame(ctx, err)
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
