package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
)

// A Task declares how [Do] guards a function: what a [Route] is for a handler.
type Task struct {
	// Name is what the function does, for everybody and for ever: a key that
	// was used for one task is refused for another. UTF-8 without NUL, 1 to
	// [MaxNameBytes] bytes. Required.
	Name string
	// Scope is whose key it is: tenant and principal, as a [ScopeFunc] returns
	// it. Required.
	Scope string
	// Effect is where the function's effects go. Required.
	Effect Effect
	// Wait is how long a duplicate waits for the first run, as on a route: Do
	// blocks for so long at most, and then returns in-progress. Zero means
	// [Config.Wait]; negative means not at all.
	Wait time.Duration
	// Cancels is the forward key of an undo, as the forward call had it, for
	// [Barrier] and [ForwardKey]. Zero if the task undoes nothing.
	Cancels childkey.Key
	// FirstSent is when the request was first made, from something durable.
	// Zero: not known.
	FirstSent time.Time
}

// A RefusedError is returned by [Do] and [Inbox.Handle] for a call that did not
// run and has no answer; Code says why. It matches another RefusedError with the
// same Code, and unwraps to Err.
type RefusedError struct {
	Code       wire.Code
	RetryAfter time.Duration // where a retry can help
	Err        error         // the cause; may be nil

	again bool // a retry can help, whatever the code says
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("server: refused: %s: %v", e.Code, e.Err)
	}
	return "server: refused: " + string(e.Code)
}

// Unwrap returns Err.
func (e *RefusedError) Unwrap() error { return e.Err }

// Is reports whether target is a RefusedError with the same Code.
func (e *RefusedError) Is(target error) bool {
	other, ok := target.(*RefusedError)
	return ok && other.Code == e.Code
}

// Retryable reports whether the same call with the same key can succeed later.
func (e *RefusedError) Retryable() bool {
	s, ok := e.Code.Situation()
	return ok && s.Retryable || e.again
}

func refusal(code wire.Code, err error) error { return &RefusedError{Code: code, Err: err} }

// newCall makes a call of t with key, for input as it is fingerprinted.
func (g *Guard) newCall(ctx context.Context, t *Task, namespace string, key childkey.Key, input []byte) (*call, error) {
	if err := g.checkTask(t, key); err != nil {
		return nil, err
	}
	if int64(len(input)) > g.cfg.MaxRequestBytes {
		return nil, refusal(wire.BodyTooLarge, fmt.Errorf("%w: input of %d bytes", ErrArgument, len(input)))
	}
	c := &call{
		route: &Route{Name: t.Name, Effect: t.Effect}, key: key, forward: t.Cancels, firstSent: t.FirstSent, bytes: int64(len(input)),
		wait: g.taskWait(t.Wait),
		subject: subject{
			scope: t.Scope, namespace: namespace, key: key.String(),
			method: taskMethod, path: t.Name, mediaType: contract.ContentType, cancels: t.Cancels.String(), body: input,
		},
	}
	c.inbound, _ = wire.FromContext(ctx) // what bounds the caller bounds the calls made for it
	g.identify(c)
	return c, nil
}

// taskMethod is no HTTP method: what a key was used for over HTTP is never the
// same as what it is used for here.
const taskMethod = "do"

func (g *Guard) checkTask(t *Task, key childkey.Key) error {
	switch {
	case t.Name == "":
		return reject("Task.Name", `""`, "is required")
	case checkScope(t.Scope) != nil:
		return refusal(wire.ScopeMissing, fmt.Errorf("%w: %w", ErrArgument, checkScope(t.Scope)))
	case key.IsZero():
		return refusal(wire.KeyMissing, fmt.Errorf("%w: the zero key", ErrArgument))
	case len(key.String()) < g.cfg.MinKeyBytes:
		return refusal(wire.KeyInvalid, errShortKey)
	case g.cfg.KeyPolicy != nil && g.cfg.KeyPolicy(key) != nil:
		return refusal(wire.KeyInvalid, errKeyPolicy)
	case t.Cancels == key:
		return refusal(wire.KeyInvalid, errSelfUndo)
	case wire.CheckFirstSent(t.FirstSent) != nil:
		return refusal(wire.FirstSentInvalid, wire.CheckFirstSent(t.FirstSent))
	case time.Until(t.FirstSent) > g.cfg.Skew:
		return refusal(wire.FirstSentInvalid, errFuture)
	}
	if err := checkName("Task.Name", t.Name); err != nil {
		return err
	}
	return g.checkRoute(Route{Effect: t.Effect, Wait: t.Wait})
}

func (g *Guard) taskWait(wait time.Duration) time.Duration {
	if wait == 0 {
		return g.cfg.Wait
	}
	return max(wait, 0)
}

// Do runs fn once for key, however often it is called with it and in however many
// processes: the guarantee of a guarded route, for a function. The first call
// claims the key and runs fn; the others get what it returned, as JSON makes it,
// and replayed true.
//
// fn's ctx is that of a run: the store's transaction, [Barrier], [OnComplete],
// [Final] and the others work in it. It carries the hop key of key as the parent key
// of fn's own calls ([childkey.Hop], with the task's scope and [Config.Namespace]). A [*StatusError] whose status is stored ([Effect] says which) is a
// verdict: it is returned to the others too, without its Err. Any other error is fn's
// failure: nothing is stored, and what follows is as the effect class says. So it is
// after a panic, which then goes on to Do's caller.
//
// ctx bounds the waiting for another's run only. A run of its own goes on when
// ctx ends, and Do returns after it. A ctx that is over already runs nothing, and is
// refused with store-unavailable. What fn returns beyond [Config.MaxResponseBytes] its
// own caller gets, and the others get response-gone.
//
// A call that neither ran nor has an answer returns a [*RefusedError]. Bad input is
// refused before the store is asked, with such an error whose Code says what is wrong, a
// [*ConfigError], or an error wrapping [ErrArgument].
func Do[In, Out any](ctx context.Context, g *Guard, t Task, key childkey.Key, in In,
	fn func(context.Context, In) (Out, error),
) (out Out, replayed bool, err error) {
	switch {
	case g == nil:
		return out, false, reject("guard", "nil", "a Guard is required")
	case fn == nil:
		return out, false, reject("fn", "nil", "a function is required")
	}
	input, err := contract.Encode(in)
	if err != nil {
		return out, false, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	c, err := g.newCall(ctx, &t, g.cfg.Namespace, key, input)
	if err != nil {
		return out, false, err
	}
	var failure error
	c.work = func(ctx context.Context) result {
		if out, failure = fn(ctx, in); failure != nil {
			return g.failed(failure)
		}
		answer, err := contract.Encode(out)
		if err != nil {
			failure = fmt.Errorf("%w: %w", ErrNotStorable, err)
			return result{unfit: true}
		}
		return g.answer(http.StatusOK, contract.ContentType, answer)
	}
	switch o := g.do(ctx, c); {
	case o.replay != nil:
		out, err = replayedValue[Out](o.replay)
		return out, true, err
	case o.ran:
		return out, false, failure
	case failure != nil:
		return out, false, errors.Join(refusedError(o), failure)
	default:
		var none Out // what fn returned is not what happened
		return none, false, refusedError(o)
	}
}

// answer is a result as it is stored; one that is too large is not.
func (g *Guard) answer(status int, mediaType string, body []byte) result {
	res := result{answer: Answer{Status: status}}
	envelope, err := g.envelopeOf(status, []headerLine{{"Content-Type", mediaType}}, body)
	if err == nil {
		res.answer.Envelope = envelope
	}
	return res
}

// failed is the result of a function that returned err.
func (g *Guard) failed(err error) result {
	p := problemOf(err)
	body, _ := json.Marshal(p) // strings and a number always encode
	return g.answer(p.Status, wire.ProblemContentType, body)
}

// replayedValue decodes what another call's function returned.
func replayedValue[Out any](a *Answer) (out Out, err error) {
	_, body, err := storedAnswer(a.Status, a.Envelope)
	if err != nil {
		return out, refusal(wire.RecordUnreadable, err)
	}
	if a.Status >= http.StatusBadRequest {
		return out, verdictOf(a.Status, body)
	}
	if err := contract.Decode(body, &out); err != nil {
		return out, refusal(wire.RecordUnreadable, err)
	}
	return out, nil
}

// verdictOf is the StatusError that failed made body from.
func verdictOf(status int, body []byte) error {
	var p typedProblem
	if err := json.Unmarshal(body, &p); err != nil {
		return refusal(wire.RecordUnreadable, err)
	}
	return &StatusError{Status: status, Code: p.Code, Detail: p.Detail}
}

// refusedError is the error for an outcome that is neither a run nor a replay.
func refusedError(o outcome) error {
	return &RefusedError{Code: o.code, RetryAfter: o.retryAfter, Err: o.err, again: o.retryable}
}
