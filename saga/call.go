package saga

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/engine"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// A Call is the argument of the function of a [StepFunc].
type Call[In any] struct {
	Key   childkey.Key // of this step of this saga, the same every time
	Input In
	// Resumed says that an earlier attempt may have had its effect already.
	Resumed bool
}

// An UndoCall is the argument of the function of [StepRef.UndoFunc].
type UndoCall[In, Out any] struct {
	Key     childkey.Key // of this undo
	Forward childkey.Key // of the call to undo
	Input   In           // of the call to undo
	// Output is the output of that call. It is nil if the outcome is unknown or the answer is
	// gone. Then look the call up by Forward, and make sure that a late copy of the call has no
	// effect.
	Output *Out
}

// operationCall returns how a step calls the operation of u.
func operationCall[In, Out any](u *use[In, Out]) func(context.Context, *graph.Call) ([]byte, error) {
	return func(ctx context.Context, c *graph.Call) ([]byte, error) {
		op := u.op
		path, body, err := u.encode(c.Input)
		if err != nil {
			return nil, &retry.Error{Outcome: retry.NotSent, Service: op.Service(), Operation: op.Name(), Err: err}
		}
		resp, err := c.Client.Send(ctx, sdk.Request{
			Service: op.Service(), Operation: op.Name(), Discriminators: c.Step.Address.Discriminators,
			Method: op.Method(), Path: path, Body: body, ContentType: op.Codec().ContentType(), Limits: limitsOf(c.Step),
		})
		if err != nil {
			return nil, err
		}
		var out Out
		if err := op.Codec().Decode(resp.Body, &out); err != nil {
			return nil, &engine.NoResult{Err: fmt.Errorf("%w: %w", ErrNoResult, errtext.Inner(err))}
		}
		return encodeResult(out)
	}
}

// limitsOf returns the limits of a step's calls. A step with more than the default AttemptTimeout asked for it, so its calls
// have that time even if the Timeout of their client is shorter.
func limitsOf(s *graph.Step) (l retry.Limits) {
	if s.AttemptTimeout > DefaultAttemptTimeout {
		l.Timeout = s.AttemptTimeout
	}
	return l
}

// operationUndo returns how a step is undone by what undo returns for the step's input.
func operationUndo[In, Out any](undo func(input any) contract.UndoOperation[In, Out], to graph.Address) func(context.Context, *graph.Call) error {
	return func(ctx context.Context, c *graph.Call) error {
		in, err := undoInput[In, Out](c)
		if err != nil {
			return err
		}
		op := undo(c.Input)
		path, err := op.Path()
		var body []byte
		if err == nil {
			body, err = op.Encode(in)
		}
		if err != nil {
			return &retry.Error{Outcome: retry.NotSent, Service: to.Service, Operation: to.Operation, Err: err}
		}
		forward, err := forwardKey(c)
		if err != nil {
			return &retry.Error{Outcome: retry.NotSent, Service: to.Service, Operation: to.Operation, Err: err}
		}
		resp, err := c.Client.Send(ctx, sdk.Request{
			Service: to.Service, Operation: to.Operation, Discriminators: c.Step.Undo.Discriminators,
			Method: op.Method(), Path: path, Body: body, ContentType: op.Codec().ContentType(), Cancels: forward, Ran: c.Ran,
			Limits: limitsOf(c.Step),
		})
		if err != nil {
			return err
		}
		c.Nothing = resp.Header.Get(wire.HeaderForward) == wire.ForwardNeverRan
		return nil
	}
}

// forwardKey is the key of the call that c undoes. A function was given the plain child key,
// whatever the profile of its service says about the keys of operations.
func forwardKey(c *graph.Call) (childkey.Key, error) {
	from := c.Step.Address
	if from.Shape == graph.Function {
		return c.Derive(from)
	}
	return c.Client.ChildKey(c.Parent, from.Service, from.Operation, from.Discriminators...)
}

// functionCall returns how a step runs fn.
func functionCall[In, Out any](fn func(context.Context, Call[In]) (Out, error)) func(context.Context, *graph.Call) ([]byte, error) {
	return func(ctx context.Context, c *graph.Call) ([]byte, error) {
		key, err := c.Derive(c.Step.Address)
		if err != nil {
			return nil, err
		}
		in, _ := wire.FromContext(ctx)
		ctx = c.Calls.Context(childkey.NewContext(ctx, key))
		out, err := fn(ctx, Call[In]{Key: key, Input: inputOf[In](c.Input), Resumed: in.Rerun})
		if err != nil {
			c.Spoke = true
			return nil, engine.Spoken(err)
		}
		return encodeResult(out)
	}
}

// functionUndo returns how a step is undone by fn.
func functionUndo[In, Out any](fn func(context.Context, UndoCall[In, Out]) error) func(context.Context, *graph.Call) error {
	return func(ctx context.Context, c *graph.Call) error {
		in, err := undoInput[In, Out](c)
		if err != nil {
			return err
		}
		key, err := c.Derive(*c.Step.Undo)
		if err != nil {
			return err
		}
		forward, err := c.Derive(c.Step.Address)
		if err != nil {
			return err
		}
		ctx = c.Calls.Context(childkey.NewContext(ctx, key))
		err = engine.Spoken(fn(ctx, UndoCall[In, Out]{Key: key, Forward: forward, Input: in.Input, Output: in.Output}))
		if errors.Is(err, ErrNothingToUndo) {
			c.Nothing, err = true, nil
		}
		c.Spoke = err != nil
		return err
	}
}

func undoInput[In, Out any](c *graph.Call) (contract.Undo[In, Out], error) {
	in := contract.Undo[In, Out]{Input: inputOf[In](c.Input)}
	if c.Output == nil {
		return in, nil
	}
	out, err := decodeLeniently[Out](c.Output)
	if err != nil {
		return in, fmt.Errorf("output of %s: %w", c.Step.Name, err)
	}
	in.Output = &out
	return in, nil
}

// encodeResult returns out as the journal keeps it.
func encodeResult(out any) ([]byte, error) {
	data, err := contract.Encode(out)
	switch {
	case err != nil:
		return nil, &engine.NoResult{Err: fmt.Errorf("%w: %w", ErrNoResult, errtext.Inner(err))}
	case len(data) > journal.MaxResultBytes:
		return nil, &engine.NoResult{Err: fmt.Errorf("%w: %d bytes, at most %d", ErrNoResult, len(data), journal.MaxResultBytes)}
	}
	return data, nil
}

// FromContext returns the [journal.CallInfo] of the engine's call that ctx belongs to. It returns
// false if ctx belongs to no such call. An engine's call has no values of the request that
// started the saga: sdk.Service.HeaderFunc takes the [Scope] from here.
func FromContext(ctx context.Context) (journal.CallInfo, bool) {
	return engine.CallInfoFrom(ctx)
}

// Rejected returns err as the error of a function that knows that it had no effect and
// never will; nor had an earlier attempt of it. The step is not tried again, and is not
// undone. From the function of an undo it means that the undo is refused: the saga is
// stuck. The result wraps a *retry.Error and err. Nil stays nil.
//
// If a [*retry.Error] is in err, the saga's [Error] has its status, code, detail and body.
// A code of package wire is left out: it speaks for a single call.
func Rejected(err error) error { return engine.Say(retry.Rejected, false, err) }

// NotSent returns err as the error of a function that knows that this attempt of it had no
// effect. The step is tried again until its time is up. It is not undone, unless an
// earlier attempt may have had an effect. The result wraps a *retry.Error and err. Nil stays
// nil.
func NotSent(err error) error { return engine.Say(retry.NotSent, false, err) }

// Permanent returns err as the error of a function that may have had an effect, and that
// another attempt cannot help. The step is not tried again, and is undone. Without an undo
// the saga is stuck, unless the step is ReadOnly or Irreversible. An undo that says so
// makes the saga stuck, too. The result wraps a *retry.Error and err. Nil stays nil.
func Permanent(err error) error { return engine.Say(retry.Unknown, true, err) }
