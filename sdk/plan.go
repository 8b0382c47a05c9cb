package sdk

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanonce/fanonce/childkey/contract"
)

// Go adds the call of op with in to the fan-out, as a branch named
// "service.operation", with op's discriminators in brackets behind it. The
// input is encoded now, so that later changes of what it points to do not
// matter. The call is made as [Call] would. A mistake is found when the
// fan-out starts, and then nothing of it is sent.
func Go[In, Out any](f *Fanout, op contract.Operation[In, Out], in In, options ...CallOption) *Future[Out] {
	f = f.made()
	b := newBranch(f, branchName(op.Service(), op.Name(), op.Discriminators()))
	out, err := composeOp(f.context(), f.client, op, in, options)
	if err != nil {
		b.invalid = err
		return add[Out](b)
	}
	b.key, b.single = out.call.Key, true
	b.run = func(ctx context.Context) (any, error) {
		resp, err := out.deliver(ctx)
		if err != nil {
			return nil, err
		}
		return decode[Out](op.Codec(), out, resp)
	}
	return add[Out](b)
}

// GoFunc adds a branch that runs fn: for calls that need the result of another
// branch, and for what is no operation. name is the branch's own in the
// fan-out and no part of any key. fn's ctx is the one to make calls and to
// call [Future.Get] with. If fn panics or ends its goroutine, its branch fails
// with a [PanicError] and no other.
//
// A branch whose fn returns an error is Unknown by default. It is NotSent or Rejected if
// each part of the error says so, and no call that fn made with its ctx took effect, or may
// have. fn can speak for itself by a [retry.Error] with an Outcome and no Attempts. A plain
// error says nothing of the effect. fn runs again after a restart, and in [Fanout.Resume]:
// its work beside calls must bear that.
func GoFunc[Out any](f *Fanout, name string, fn func(ctx context.Context) (Out, error)) *Future[Out] {
	b := newBranch(f.made(), name)
	if fn != nil {
		b.run = func(ctx context.Context) (any, error) { return fn(ctx) }
	}
	return add[Out](b)
}

// Each adds the call of op for every item, told apart by idOf: an id that an
// item keeps across restarts, such as a SKU, never its position in the list. It
// is appended to op's discriminators, and two items with one id are refused
// like any duplicate. The futures are in the order of items. With no items the
// fan-out is not changed, and Wait takes that for intended. A nil idOf or inOf is
// an [ErrBranch].
func Each[Item, In, Out any](
	f *Fanout, op contract.Operation[In, Out], items []Item, idOf func(Item) string, inOf func(Item) In,
) []*Future[Out] {
	f = f.made()
	f.mu.Lock()
	f.given = true
	f.mu.Unlock()
	if idOf == nil || inOf == nil {
		b := newBranch(f, branchName(op.Service(), op.Name(), op.Discriminators()))
		b.invalid = b.refusal(fmt.Errorf("%w: no function for the items' ids and inputs", ErrBranch))
		return slices.Repeat([]*Future[Out]{add[Out](b)}, len(items))
	}
	futures := make([]*Future[Out], 0, len(items))
	for _, item := range items {
		one := op.For(append(slices.Clip(op.Discriminators()), idOf(item))...)
		futures = append(futures, Go(f, one, inOf(item)))
	}
	return futures
}

func add[Out any](b *branch) *Future[Out] {
	b.fan.add(b)
	return &Future[Out]{branch: b}
}

func (f *Fanout) context() context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ctx
}
