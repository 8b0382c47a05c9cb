package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/store"
)

// Do runs work once for key, however often it is called with it and in however many
// processes. It serves work that does not come in over net/http: an adapter of another
// protocol, a consumer of messages, a job. [Do] is the typed form. The key is bound to input:
// the same key with another input is key-reused.
//
// The first call claims the key and runs work. The status of work's Response and the task's
// effect class decide what is stored ([Effect] has the table). Every further call gets
// the stored answer, with the headers that may be replayed ([Config.ReplayHeaders]), and
// replayed true.
//
// An error of work is answered as a typed handler's. A [*StatusError] is stored if its status is, and is returned to
// every further call too, without its Err, beside the problem that was stored. After any other error nothing is
// stored, and what follows is as the effect class says. The same holds after a panic, which goes on to Do's caller.
// It also holds after a Response whose status is not 200 to 999; the error is [ErrNotStorable].
//
// work's ctx is a run's ctx: the store's transaction, [Barrier], [store.OnComplete], [Settle] and the others work in
// it. Its parent key is the hop key of key, with the task's scope and namespace ([childkey.Hop]).
//
// ctx bounds only the wait for another caller's run. The call's own run goes on when ctx ends, and Do returns after
// the run. If ctx has ended before, nothing runs, and the call is refused with store-unavailable. A body beyond
// [Config.MaxResponseBytes] goes only to the caller of its run; the others get response-gone.
//
// A call that neither ran nor has an answer returns a [*RefusedError], joined with work's
// error if there was one. Bad input is refused before the store is asked, with a
// RefusedError whose Code says why, or a [*ConfigError].
func (g *Guard) Do(ctx context.Context, t Task, key childkey.Key, input []byte,
	work func(ctx context.Context) (Response, error),
) (answer Response, replayed bool, err error) {
	switch {
	case g == nil:
		return Response{}, false, reject("guard", "nil", "a Guard is required")
	case work == nil:
		return Response{}, false, reject("work", "nil", "a function is required")
	}
	c, err := g.newCall(ctx, &t, key, input)
	if err != nil {
		return Response{}, false, err
	}
	var failure error
	c.Work = func(ctx context.Context) (res engine.Result) {
		answer, res, failure = g.worked(ctx, work)
		return res
	}
	switch o := g.do(ctx, c); {
	case o.replay != nil:
		answer, err = replayedAnswer(o.replay)
		return answer, true, err
	case o.ran:
		return answer, false, failure
	case failure != nil:
		return Response{}, false, errors.Join(refusedError(o), failure)
	default:
		return Response{}, false, refusedError(o)
	}
}

// worked runs the function of a task.
func (g *Guard) worked(ctx context.Context, work func(context.Context) (Response, error)) (Response, engine.Result, error) {
	answer, failure := work(ctx)
	if failure == nil && (answer.Status < 200 || answer.Status > 999 || len(answer.Body) > 0 && !bodyAllowed(answer.Status)) {
		failure = fmt.Errorf("%w: status %d with a body of %d bytes", ErrNotStorable, answer.Status, len(answer.Body))
	}
	switch {
	case errors.Is(failure, ErrNotStorable):
		return Response{}, engine.Result{Unfit: true}, failure
	case failure != nil:
		failure = settleBy(ctx, failure)
		answer = failureAnswer(failure)
	}
	res := resultOf(answer.Status)
	if envelope, err := g.envelope(answer); err == nil { // otherwise it is too large to store
		res.Answer.Envelope = envelope
	}
	return answer, res, failure
}

// failureAnswer is the answer of a function that returned err.
func failureAnswer(err error) Response {
	p := problemOf(err)
	body, _ := json.Marshal(p) // strings and a number always encode
	return Response{Status: p.Status, Header: http.Header{"Content-Type": {wire.ProblemContentType}}, Body: body}
}

// replayedAnswer is the answer of an earlier run. An answer that a StatusError made is that
// error again.
func replayedAnswer(a *store.Answer) (Response, error) {
	answer, err := responseOf(a.Status, a.Envelope)
	answer.Body = bytes.Clone(answer.Body) // the envelope is shared with other calls
	switch {
	case err != nil:
		return Response{}, refusal(wire.RecordUnreadable, err)
	case a.Status < http.StatusBadRequest, answer.Header.Get("Content-Type") != wire.ProblemContentType:
		return answer, nil
	}
	var p typedProblem
	if err := json.Unmarshal(answer.Body, &p); err != nil {
		return Response{}, refusal(wire.RecordUnreadable, err)
	}
	return answer, &StatusError{Status: a.Status, Code: p.Code, Detail: p.Detail}
}

// Do runs fn once for key: [Guard.Do] for a function with types. The first call runs fn. The others get its result,
// encoded and decoded as JSON, and replayed true. The key is bound to the JSON of in.
//
// Everything else is as in [Guard.Do]. Input or a result that is not JSON is an error wrapping [ErrArgument] or
// [ErrNotStorable].
func Do[In, Out any](ctx context.Context, g *Guard, t Task, key childkey.Key, in In,
	fn func(context.Context, In) (Out, error),
) (out Out, replayed bool, err error) {
	if fn == nil {
		return out, false, reject("fn", "nil", "a function is required")
	}
	input, err := contract.Encode(in)
	if err != nil {
		return out, false, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	failed := false
	answer, replayed, err := g.Do(ctx, t, key, input, func(ctx context.Context) (Response, error) {
		var err error
		out, err = fn(ctx, in)
		if failed = err != nil; failed {
			return Response{}, err
		}
		return encoded(out)
	})
	switch {
	case replayed && err == nil:
		if err := contract.Decode(answer.Body, &out); err != nil {
			return out, true, refusal(wire.RecordUnreadable, err)
		}
		return out, true, nil
	case err != nil && !failed:
		var none Out // the result of fn does not count
		return none, replayed, err
	default:
		return out, replayed, err
	}
}

// encoded is the answer with a function's result.
func encoded(out any) (Response, error) {
	body, err := contract.Encode(out)
	if err != nil {
		return Response{}, fmt.Errorf("%w: %w", ErrNotStorable, err)
	}
	return Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {contract.ContentType}}, Body: body}, nil
}

// refusedError is the error for an outcome that is neither a run nor a replay.
func refusedError(o outcome) error {
	return &RefusedError{Code: o.code, RetryAfter: o.retryAfter, Err: o.err, Again: o.retryable}
}
