package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// CallUndo undoes the call of op that was made under the same parent key, whether or not it arrived, and blocks until it
// is undone. It sends the undo that contract.Operation.UndoneBy names, else [ErrNoUndo]. That has its own key and names the
// forward key. So a callee with a barrier knows whether there is something to undo, and refuses a late forward call.
//
// op is the operation as it was called, with its discriminators and its path. in says what is known of the call. The callee
// does not compare it, because a later attempt may know the Output that an earlier one did not. The other errors are
// those of [Call]. [Fanout.Undo] undoes a whole fan-out.
func CallUndo[In, Out any](
	ctx context.Context, c *Client, op contract.Operation[In, Out], in contract.Undo[In, Out], options ...CallOption,
) error {
	req, err := undoRequest(op, in)
	if err == nil {
		req.Cancels, err = KeyOf(ctx, c, op)
	}
	if err != nil {
		return c.refuse(ctx, retry.Task{Service: op.Service(), Operation: op.Name()}, err)
	}
	for _, option := range options {
		option(&req)
	}
	_, err = c.Send(ctx, req)
	return err
}

// undoRequest returns the call that undoes a call of op, but for the forward key.
func undoRequest[In, Out any](op contract.Operation[In, Out], in contract.Undo[In, Out]) (Request, error) {
	if err := op.Err(); err != nil {
		return Request{}, err
	}
	undo := op.Undo()
	if undo == nil {
		return Request{}, fmt.Errorf("%w: %s %s", ErrNoUndo, op.Service(), op.Name())
	}
	path, err := undo.Path()
	if err != nil {
		return Request{}, err
	}
	body, err := undo.Encode(in)
	return Request{
		Service: undo.Service(), Operation: undo.Name(), Discriminators: undo.Discriminators(),
		Method: undo.Method(), Path: path, Body: body, ContentType: undo.Codec().ContentType(), Ran: in.Output != nil,
	}, err
}

// An undoFunc returns the call that undoes one with that body, whose answer is nil where it is not known.
type undoFunc func(body, answer []byte) (Request, error)

// undoOf returns how calls of op are undone; nil if nothing does.
func undoOf[In, Out any](op contract.Operation[In, Out]) undoFunc {
	if op.Undo() == nil {
		return nil
	}
	return func(body, answer []byte) (Request, error) {
		var in contract.Undo[In, Out]
		if err := op.Codec().Decode(body, &in.Input); err != nil {
			return Request{}, err
		}
		if answer != nil {
			out := new(Out)
			if err := op.Codec().Decode(answer, out); err == nil {
				in.Output = out
			}
		}
		return undoRequest(op, in)
	}
}

// A madeCall is a call that a fan-out made, or plans.
type madeCall struct {
	out   *outgoing
	began int64 // when it was composed, on ticks

	mu      sync.Mutex
	ended   int64 // the same; 0: it runs, or was not sent
	outcome retry.Outcome
	undone  bool   // its callee says that it was undone
	answer  []byte // nil: not known
}

// ticks orders the beginnings and ends of calls.
var ticks atomic.Int64

// callNotes are the notes of one call, of each fan-out that it is made in.
type callNotes []*madeCall

// noteIn notes a call in all fan-outs whose branches ctx is in.
func (o *outgoing) noteIn(ctx context.Context) (notes callNotes) {
	if o.call.Key.IsZero() || !o.call.Cancels.IsZero() {
		return nil // a read, or an undo itself
	}
	for b := branchFrom(ctx); b != nil; b = b.up {
		b.fan.mu.Lock()
		notes = append(notes, b.fan.note(o))
		b.fan.mu.Unlock()
	}
	return notes
}

// note returns the note of the call, made now if there is none. f.mu is held.
func (f *Fanout) note(o *outgoing) *madeCall {
	c := f.noted[o.call.Key]
	if c == nil {
		c = &madeCall{out: o, began: ticks.Add(1), outcome: retry.Unknown}
		f.noted[o.call.Key], f.calls = c, append(f.calls, c)
	}
	return c
}

// end notes how the call ended. A call that took effect stays so, and one that is not sent again stays what it was.
func (notes callNotes) end(resp *retry.Response, outcome retry.Outcome, err error) {
	for _, c := range notes {
		c.mu.Lock()
		again := c.ended > 0
		c.ended = ticks.Add(1)
		if c.outcome != retry.Completed && !(again && outcome == retry.NotSent) {
			c.outcome, c.undone = outcome, isUndone(err)
			if resp != nil {
				c.answer = resp.Body
			}
		}
		c.mu.Unlock()
	}
}

// remains reports whether the call left something to undo, or may have. An undo that was begun is asked for again,
// because it may not have come to its end.
func (c *madeCall) remains() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outcome == retry.Completed || c.outcome == retry.Unknown || c.undone
}

// precedes reports whether the call had ended at a time on ticks. So what was composed then may depend on what it did.
func (c *madeCall) precedes(tick int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended > 0 && c.ended < tick
}

// Undo undoes the calls of the fan-out that took effect, or may have. These are the calls of [Add] and [AddEach], and those
// that the functions of [AddFunc] made with their ctx. Undo waits for the fan-out first, and blocks until all is undone.
// Each call is undone by the operation that contract.Operation.UndoneBy has named, with the input that was sent, and with
// the output if it is known. A call that was refused or never sent is left alone.
//
// The calls are undone from the last to the first: a call before those that had ended when it began. So after a run that
// died in the middle of Undo, the next run still has the inputs of the calls that are not undone yet. Undo may be called
// again, in this process or another: the callees replay the undos that they have done.
//
// A fan-out that nobody has started is not started. Its branches of Add count as calls that an earlier run may have made,
// so the undo of a whole request declares the same fan-out under the forward key and calls Undo. A function that has not
// run gets an [ErrBranch].
//
// ctx carries the parent key of the fan-out, else the error wraps [ErrRequest]; its time may be longer than that of the
// fan-out's ctx. If an undo failed, the error is a [*FanoutError] of all undos. An undo that therefore did not begin is
// NotSent in it. [Resumable] reports whether another run can help. If a call took effect, or may have, and nothing names its
// undo, the error is an [ErrNoUndo]: the others are undone nevertheless. That holds for the calls of [Client.Send] and
// [Client.RoundTripper], too.
func (f *Fanout) Undo(ctx context.Context) error {
	f = f.made()
	if err := f.checkUndo(ctx); err != nil {
		return refuse("", "", childkey.Key{}, err)
	}
	if err := f.settle(); err != nil {
		return err
	}
	left, results := f.remaining()
	failed := len(results) > 0
	for len(left) > 0 {
		last, before := splitLast(left)
		undo := f.client.Fanout(ctx)
		for _, c := range last {
			undo.addUndo(c)
		}
		err := undo.Wait()
		for _, b := range undo.branches {
			results = append(results, b.result)
		}
		if failed = failed || err != nil; err != nil {
			results = append(results, notBegun(before)...)
			break
		}
		left = before
	}
	if failed {
		return &FanoutError{Results: results}
	}
	return nil
}

// checkUndo returns what is wrong with the ctx of an undo, or with the fan-out.
func (f *Fanout) checkUndo(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	parent, ok := childkey.FromContext(ctx)
	if !ok {
		return ErrNoParent
	}
	if own, _ := childkey.FromContext(f.ctx); own != parent {
		return fmt.Errorf("%w: Undo with the ctx of another request", ErrRequest)
	}
	return nil
}

// settle waits until no branch runs. If no branch was started, none can be started from now on.
func (f *Fanout) settle() error {
	f.mu.Lock()
	if !slices.ContainsFunc(f.branches, func(b *branch) bool { return b.started }) {
		f.abandon()
	}
	abandoned := f.abandoned
	f.mu.Unlock()
	err := f.Wait()
	if abandoned {
		if slices.ContainsFunc(f.branches, func(b *branch) bool { return b.invalid != nil }) {
			return err
		}
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.branches {
		if b.call != nil && b.result.Outcome == retry.NotSent {
			callNotes{f.note(b.call)}.end(nil, retry.NotSent, nil) // also where it did not come to be delivered
		}
	}
	return nil
}

// errAbandoned is the error of a branch that is undone without having been started.
var errAbandoned = fmt.Errorf("%w: it was undone before it started", ErrPlan)

// abandon ends branches that were not started, and never will be. f.mu is held.
func (f *Fanout) abandon() {
	f.waited, f.abandoned = true, true
	for _, b := range f.branches {
		if b.invalid == nil && b.call == nil {
			b.invalid = b.refusal(fmt.Errorf("%w: the function has not run, so nobody knows what it called", ErrBranch))
		}
	}
	for _, b := range f.branches {
		b.refuse(errAbandoned)
	}
}

// remaining returns the calls that are to be undone, and the results of the calls that stay.
func (f *Fanout) remaining() (left []*madeCall, stay []Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		switch {
		case !c.remains():
		case c.out.undo != nil:
			left = append(left, c)
		default:
			stay = append(stay, c.refusal(ErrNoUndo))
		}
	}
	return left, stay
}

// errNotBegun is why the undo of a call did not begin.
var errNotBegun = errors.New("sdk: not undone, because a later call could not be undone")

// refusal returns the result of an undo that was not sent.
func (c *madeCall) refusal(err error) Result {
	call := c.out.call
	return Result{Name: "undo of " + c.out.name, Outcome: retry.NotSent, Err: refuse(call.Service, call.Operation, call.Key, err)}
}

// splitLast returns the calls on which no other one of left can depend, and the rest.
func splitLast(left []*madeCall) (last, before []*madeCall) {
	latest := slices.MaxFunc(left, func(a, b *madeCall) int { return cmp.Compare(a.began, b.began) }).began
	for _, c := range left {
		if c.precedes(latest) {
			before = append(before, c)
		} else {
			last = append(last, c)
		}
	}
	return last, before
}

// addUndo adds the undo of c as a branch.
func (f *Fanout) addUndo(c *madeCall) {
	var out *outgoing
	req, err := c.undoRequest()
	if err == nil {
		out, err = f.client.compose(f.ctx, req)
	}
	if err != nil { // it fails alone: the others are undone
		b := newBranch(f, "undo of "+c.out.name)
		b.single, b.run = true, func(context.Context) (any, error) { return nil, err }
		f.add(b)
		return
	}
	b := newBranch(f, out.name)
	b.makes(out, func(*retry.Response) (any, error) { return nil, nil })
	f.add(b)
}

// undoRequest returns the call that undoes c.
func (c *madeCall) undoRequest() (Request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.out.call
	req, err := c.out.undo(call.Body, c.answer)
	if err != nil {
		return req, refuse(call.Service, call.Operation, call.Key, err)
	}
	req.Cancels, req.Ran = call.Key, c.outcome == retry.Completed
	return req, nil
}

// notBegun returns the results of undos that could not begin, because another undo failed.
func notBegun(calls []*madeCall) []Result {
	results := make([]Result, len(calls))
	for i, c := range calls {
		results[i] = c.refusal(errNotBegun)
	}
	return results
}
