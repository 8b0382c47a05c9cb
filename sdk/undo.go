package sdk

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// CallUndo calls undo, which undoes the call of forward that was made under the
// same parent key, whether or not it arrived. The undo has a key of its own and
// names the forward key, so that a callee with a barrier knows whether there is
// something to undo, and turns a late forward call away.
//
// forward is the operation as it was called, with its discriminators; undo
// takes them over unless it has its own. Both belong to one service, else
// [ErrRequest]. Its other errors are those of [Call].
func CallUndo[In, Out, Ack any](
	ctx context.Context, c *Client,
	undo contract.Operation[contract.Undo[In, Out], Ack], forward contract.Operation[In, Out],
	in contract.Undo[In, Out], options ...CallOption,
) (Ack, error) {
	undo, cancels, err := undoing(ctx, c, undo, forward)
	if err != nil {
		var none Ack
		return none, c.refuse(ctx, retry.Task{Service: undo.Service(), Operation: undo.Name()}, err)
	}
	return Call(ctx, c, undo, in, append([]CallOption{cancels}, options...)...)
}

// GoUndo is [CallUndo] as a branch of a fan-out.
func GoUndo[In, Out, Ack any](
	f *Fanout, undo contract.Operation[contract.Undo[In, Out], Ack], forward contract.Operation[In, Out],
	in contract.Undo[In, Out], options ...CallOption,
) *Future[Ack] {
	f = f.made()
	undo, cancels, err := undoing(f.context(), f.client, undo, forward)
	if err != nil {
		b := newBranch(f, branchName(undo.Service(), undo.Name(), undo.Discriminators()))
		b.invalid = f.client.refuse(f.context(), retry.Task{Service: undo.Service(), Operation: undo.Name()}, err)
		return add[Ack](b)
	}
	return Go(f, undo, in, append([]CallOption{cancels}, options...)...)
}

func undoing[In, Out, Ack any](
	ctx context.Context, c *Client,
	undo contract.Operation[contract.Undo[In, Out], Ack], forward contract.Operation[In, Out],
) (contract.Operation[contract.Undo[In, Out], Ack], CallOption, error) {
	if undo.Service() != forward.Service() {
		return undo, nil, fmt.Errorf("%w: %s cannot undo a call of %s", ErrRequest, undo.Service(), forward.Service())
	}
	key, err := KeyOf(ctx, c, forward)
	if err != nil {
		return undo, nil, err
	}
	if len(undo.Discriminators()) == 0 {
		undo = undo.For(forward.Discriminators()...)
	}
	return undo, Cancels(key), nil
}
