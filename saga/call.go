package saga

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// A Call is what the function of a [StepFunc] is given.
type Call[In any] struct {
	Key   childkey.Key // of this step of this saga, the same every time
	Input In
	// Resumed says that an earlier try may have had its effect already.
	Resumed bool
}

// An UndoCall is what the function of [StepRef.UndoFunc] is given.
type UndoCall[In, Out any] struct {
	Key     childkey.Key // of this undo
	Forward childkey.Key // of the call to undo
	Input   In           // that the call to undo was given
	// Output is what that call returned; nil where its outcome is unknown or
	// its answer is gone: then look it up by Forward, and make sure that a
	// late copy of it has no effect.
	Output *Out
}

// A call is one try of a step's call or undo. ctx carries the parent key.
type call struct {
	client *sdk.Client
	parent childkey.Key // of the saga's calls
	step   *step
	input  any
	output []byte // of the call to undo; nil: none

	calls *retry.Calls // that functions made in this try and in earlier ones of the owner

	nothing bool // set by an undo that found nothing to undo
	spoke   bool // set by a function that returned an error
}

// operationCall returns how a step calls op.
func operationCall[In, Out any](op contract.Operation[In, Out], path string) func(context.Context, *call) ([]byte, error) {
	return func(ctx context.Context, c *call) ([]byte, error) {
		body, err := op.Encode(as[In](c.input))
		if err != nil {
			return nil, &retry.Error{Outcome: retry.NotSent, Service: op.Service(), Operation: op.Name(), Err: err}
		}
		resp, err := c.client.Send(ctx, sdk.Request{
			Service: op.Service(), Operation: op.Name(), Discriminators: op.Discriminators(),
			Method: op.Method(), Path: path, Body: body, ContentType: op.Codec().ContentType(),
		})
		if err != nil {
			return nil, err
		}
		var out Out
		if err := op.Codec().Decode(resp.Body, &out); err != nil {
			return nil, &noResult{fmt.Errorf("%w: %w", ErrNoResult, err)}
		}
		return encodeResult(out)
	}
}

// operationUndo returns how a step is undone by op.
func operationUndo[In, Out any](op UndoOperation[In, Out], path string, to address) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		in, err := undoInput[In, Out](c)
		if err != nil {
			return err
		}
		body, err := op.Encode(in)
		if err != nil {
			return &retry.Error{Outcome: retry.NotSent, Service: to.service, Operation: to.operation, Err: err}
		}
		from := c.step.address
		forward, err := c.client.ChildKey(c.parent, from.service, from.operation, from.discriminators...)
		if err != nil {
			return &retry.Error{Outcome: retry.NotSent, Service: to.service, Operation: to.operation, Err: err}
		}
		resp, err := c.client.Send(ctx, sdk.Request{
			Service: to.service, Operation: to.operation, Discriminators: to.discriminators,
			Method: op.Method(), Path: path, Body: body, ContentType: op.Codec().ContentType(), Cancels: forward,
		})
		if err != nil {
			return err
		}
		c.nothing = resp.Header.Get(wire.HeaderForward) == wire.ForwardNeverRan
		return nil
	}
}

// functionCall returns how a step runs fn.
func functionCall[In, Out any](fn func(context.Context, Call[In]) (Out, error)) func(context.Context, *call) ([]byte, error) {
	return func(ctx context.Context, c *call) ([]byte, error) {
		key, err := c.derive(c.step.address)
		if err != nil {
			return nil, err
		}
		in, _ := wire.FromContext(ctx)
		ctx = c.calls.Context(childkey.NewContext(ctx, key))
		out, err := fn(ctx, Call[In]{Key: key, Input: as[In](c.input), Resumed: in.Rerun})
		if err != nil {
			c.spoke = true
			return nil, spoken(err)
		}
		return encodeResult(out)
	}
}

// errNil stands for a nil *retry.Error that a function returns as its error: nobody can ask
// that one anything.
var errNil = errors.New("saga: the function returned a nil *retry.Error as its error")

// spoken returns the error of a function as one that can be asked.
func spoken(err error) error {
	if failed, ok := err.(*retry.Error); ok && failed == nil { //nolint:errorlint // only what was returned itself can be nil
		return errNil
	}
	return err
}

// functionUndo returns how a step is undone by fn.
func functionUndo[In, Out any](fn func(context.Context, UndoCall[In, Out]) error, to address) func(context.Context, *call) error {
	return func(ctx context.Context, c *call) error {
		in, err := undoInput[In, Out](c)
		if err != nil {
			return err
		}
		key, err := c.derive(to)
		if err != nil {
			return err
		}
		forward, err := c.derive(c.step.address)
		if err != nil {
			return err
		}
		ctx = c.calls.Context(childkey.NewContext(ctx, key))
		err = spoken(fn(ctx, UndoCall[In, Out]{Key: key, Forward: forward, Input: in.Input, Output: in.Output}))
		if errors.Is(err, ErrNothingToUndo) {
			c.nothing, err = true, nil
		}
		c.spoke = err != nil
		return err
	}
}

func (c *call) derive(a address) (childkey.Key, error) {
	return childkey.Derive(c.parent, a.service, a.operation, a.discriminators...)
}

func undoInput[In, Out any](c *call) (contract.Undo[In, Out], error) {
	in := contract.Undo[In, Out]{Input: as[In](c.input)}
	if c.output == nil {
		return in, nil
	}
	out, err := decodeLeniently[Out](c.output)
	if err != nil {
		return in, fmt.Errorf("output of %s: %w", c.step.name, err)
	}
	in.Output = &out
	return in, nil
}

// A noResult is a call that completed and whose output cannot be had.
type noResult struct{ err error }

func (e *noResult) Error() string { return e.err.Error() }
func (e *noResult) Unwrap() error { return e.err }

// encodeResult returns out as the journal keeps it.
func encodeResult(out any) ([]byte, error) {
	data, err := contract.Encode(out)
	switch {
	case err != nil:
		return nil, &noResult{fmt.Errorf("%w: %w", ErrNoResult, err)}
	case len(data) > MaxResultBytes:
		return nil, &noResult{fmt.Errorf("%w: %d bytes, at most %d", ErrNoResult, len(data), MaxResultBytes)}
	}
	return data, nil
}
