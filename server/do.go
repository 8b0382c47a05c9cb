package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/engine"
	"github.com/fanonce/fanonce/server/internal/record"
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
// replayed true. An answer of 2xx to an undo that called [Barrier] carries the fate of the
// forward call, in Idempotent-Forward. An answer that is not stored has Idempotency-Should-Retry:
// true if the next call runs work again, and false if no retry can help.
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
// the run. If ctx has ended before, nothing runs, and the call is refused with not-claimed. A body beyond
// [Config.MaxResponseBytes] goes only to the caller of its run; the others get response-gone.
//
// A call that neither ran nor has an answer returns a [*RefusedError], joined with work's
// error if there was one. Bad input is refused before the store is asked, with a
// RefusedError whose Code says why, or a [*ConfigError].
func (g *Guard) Do(ctx context.Context, t Task, key childkey.Key, input []byte,
	work func(ctx context.Context) (Response, error),
) (answer Response, replayed bool, err error) {
	if work == nil {
		return Response{}, false, reject("work", "nil", "a function is required")
	}
	answer, stored, err := g.perform(ctx, &t, key, input, work)
	if stored == nil {
		return answer, false, err
	}
	opened, err := replayedAnswer(stored)
	if opened.status == 0 {
		return Response{}, true, err
	}
	answer = opened.response()
	answer.Body = bytes.Clone(answer.Body) // the envelope is shared with other calls
	return answer, true, err
}

// perform is [Guard.Do] without its translation of a stored answer, which it returns if the call is a replay.
func (g *Guard) perform(ctx context.Context, t *Task, key childkey.Key, input []byte,
	work func(context.Context) (Response, error),
) (Response, *store.Answer, error) {
	if g == nil {
		return Response{}, nil, reject("guard", "nil", "a Guard is required")
	}
	p := &performance{guard: g, work: work}
	if err := g.taskCall(ctx, &p.call, t, key, input); err != nil {
		return Response{}, nil, err
	}
	p.call.Work = p.run
	switch o := g.engine.Do(ctx, &p.call.Call); {
	case o.Replay != nil:
		return Response{}, o.Replay, nil
	case o.Ran:
		if !o.Recorded && !key.IsZero() {
			p.setHeader(wire.HeaderShouldRetry, strconv.FormatBool(o.Again))
		}
		return p.answer, nil, p.failure
	case p.failure != nil:
		return Response{}, nil, errors.Join(refusedError(o), p.failure)
	default:
		return Response{}, nil, refusedError(o)
	}
}

// A performance is one call of a task.
type performance struct {
	call  call
	guard *Guard
	work  func(context.Context) (Response, error)
	// answer and failure are those of the last run of work.
	answer  Response
	failure error
}

// run runs the task's function. It may run again after a conflict.
func (p *performance) run(ctx context.Context) engine.Result {
	p.answer, p.failure = p.work(ctx)
	if status, size := p.answer.Status, len(p.answer.Body); p.failure == nil &&
		(status < 200 || status > 999 || size > 0 && !bodyAllowed(status)) {
		p.failure = fmt.Errorf("%w: status %d with a body of %d bytes", ErrNotStorable, status, size)
	}
	switch {
	case errors.Is(p.failure, ErrNotStorable):
		p.answer = Response{}
		return engine.Result{Unfit: true}
	case p.failure != nil:
		p.failure = settleBy(ctx, p.failure)
		p.answer = problemOf(p.failure).response()
	}
	p.tell(engine.From(ctx).Fate())
	res := resultOf(p.answer.Status)
	if envelope, err := p.guard.envelope(p.answer); err == nil { // otherwise it is too large to store
		res.Answer.Envelope = envelope
	}
	return res
}

// tell adds the fate of the forward call to an answer of success. The function's own value of that header is dropped.
func (p *performance) tell(fate Fate) {
	text := fateHeader(fate)
	_, given := p.answer.Header[wire.HeaderForward]
	if !given && (text == "" || p.answer.Status/100 != 2) {
		return
	}
	if p.answer.Status/100 != 2 {
		text = ""
	}
	p.setHeader(wire.HeaderForward, text)
}

// setHeader sets a header of the answer; "" deletes it. The function may share the header between calls.
func (p *performance) setHeader(name, text string) {
	header := maps.Clone(p.answer.Header)
	if header == nil {
		header = make(http.Header)
	}
	delete(header, name)
	if text != "" {
		header[name] = []string{text}
	}
	p.answer.Header = header
}

// replayedAnswer is the answer of an earlier run. An answer that a StatusError made is that
// error again.
func replayedAnswer(a *store.Answer) (storedAnswer, error) {
	answer, err := openAnswer(a.Status, a.Envelope)
	switch {
	case err != nil:
		return storedAnswer{}, refusal(wire.RecordUnreadable, err)
	case a.Status < http.StatusBadRequest, !slices.Contains(answer.lines, problemLine):
		return answer, nil
	}
	var p typedProblem
	if err := json.Unmarshal(answer.body, &p); err != nil {
		return storedAnswer{}, refusal(wire.RecordUnreadable, err)
	}
	return answer, &StatusError{Status: a.Status, Code: p.Code, Detail: p.Detail}
}

// problemLine is the header line of an answer of a typedProblem.
var problemLine = record.Line{Name: "Content-Type", Value: wire.ProblemContentType}

// Do runs fn once for key: [Guard.Do] for a function with types. The first call runs fn. The others get its result,
// and replayed true. Every caller, the first too, gets the result as [contract.Decode] reads its JSON, so that all get
// the same. With an error the result is the zero Out. The key is bound to the JSON of in.
//
// Everything else is as in [Guard.Do]. Input that is not JSON is an [ErrArgument], and a result that is not JSON an
// [ErrNotStorable]. A type of which JSON loses a part is an ErrArgument that matches [contract.ErrType].
func Do[In, Out any](ctx context.Context, g *Guard, t Task, key childkey.Key, in In,
	fn func(context.Context, In) (Out, error),
) (out Out, replayed bool, err error) {
	if fn == nil {
		return out, false, reject("fn", "nil", "a function is required")
	}
	if err := cmp.Or(contract.CheckType[In](), contract.CheckType[Out]()); err != nil {
		return out, false, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	input, err := contract.Encode(in)
	if err != nil {
		return out, false, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	ran := false
	_, stored, err := g.perform(ctx, &t, key, input, func(ctx context.Context) (Response, error) {
		if ran { // rolled back by a conflict; it may have changed what in refers to
			var fresh In
			if err := contract.Decode(input, &fresh); err != nil {
				return Response{}, err
			}
			in = fresh
		}
		ran = true
		result, err := fn(ctx, in)
		if err != nil {
			return Response{}, err
		}
		answer, same, err := encodeOutput(result)
		out = same
		return answer, err
	})
	switch {
	case stored != nil:
		return decodedReplay[Out](stored)
	case err != nil:
		var none Out // out may be that of a run that was not recorded
		return none, false, err
	default:
		return out, false, nil
	}
}

// decodedReplay is the result of an earlier run.
func decodedReplay[Out any](stored *store.Answer) (out Out, replayed bool, err error) {
	answer, err := replayedAnswer(stored)
	if err != nil {
		return out, true, err
	}
	if err := contract.Decode(answer.body, &out); err != nil {
		return out, true, refusal(wire.RecordUnreadable, err)
	}
	return out, true, nil
}

// encodeOutput returns the answer with a function's result, and the result as a replay of that answer gives it.
func encodeOutput[Out any](result Out) (answer Response, same Out, err error) {
	body, err := contract.Encode(result)
	if err == nil {
		err = contract.Decode(body, &same)
	}
	if err != nil {
		return Response{}, same, fmt.Errorf("%w: %w", ErrNotStorable, err)
	}
	return Response{Status: http.StatusOK, Header: encodedHeader, Body: body}, same, nil
}

// encodedHeader is the header of every function's result. It is shared and must not change.
var encodedHeader = http.Header{"Content-Type": {contract.ContentType}}

// refusedError is the error for an outcome that is neither a run nor a replay.
func refusedError(o outcome) error {
	return &RefusedError{Code: o.Code, RetryAfter: o.RetryAfter, Err: o.Err, Again: o.Retryable}
}
