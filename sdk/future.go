package sdk

import (
	"context"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// A Future is the result of a branch of a fan-out, once there is one. It is
// safe for concurrent use; the zero Future belongs to no branch.
type Future[Out any] struct{ branch *branch }

// Name returns the name of the branch.
func (p *Future[Out]) Name() string {
	if p == nil || p.branch == nil {
		return ""
	}
	return p.branch.name
}

// Get returns the result of the branch and blocks until there is one or ctx
// ends. It starts the fan-out if nobody did.
//
// Inside a branch of the same fan-out call it with the ctx of that branch:
// then it is a dependency. While it waits the branch does not count for
// [MaxParallel], and if the other branch failed the error is a
// [DependencyError], of outcome NotSent: return it. Branches that wait for each
// other get [ErrCycle]. Anywhere else the error is that of the branch.
func (p *Future[Out]) Get(ctx context.Context) (Out, error) {
	var none Out
	if p == nil || p.branch == nil {
		return none, refuse("", "", childkey.Key{}, fmt.Errorf("%w: zero Future", ErrBranch))
	}
	value, err := p.branch.await(ctx)
	if err != nil {
		return none, err
	}
	out, _ := value.(Out) // fails for a nil interface only, which none is
	return out, nil
}

func (b *branch) await(ctx context.Context) (any, error) {
	f := b.fan
	f.Start()
	f.mu.Lock()
	r := b.attempt
	f.mu.Unlock()
	waiter := attemptFrom(ctx, f)
	if err := r.wait(ctx, waiter); err != nil {
		return nil, err
	}
	switch {
	case r.result.Err == nil:
		return r.result.Value, nil
	case waiter == nil:
		return nil, r.result.Err
	default:
		return nil, waiter.branch.refusal(
			&DependencyError{Branch: waiter.branch.name, Dependency: b.name, Err: r.result.Err})
	}
}

// wait blocks until a is done. waiter is the attempt that waits, nil for one
// outside of the fan-out.
func (a *attempt) wait(ctx context.Context, waiter *attempt) error {
	select {
	case <-a.done:
		return nil
	default:
	}
	if waiter != nil {
		back, err := waiter.lend(a.branch)
		if err != nil {
			return waiter.branch.refusal(err)
		}
		defer back()
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-a.done: // both happened: a result is worth more
		return nil
	default:
	}
	err := fmt.Errorf("sdk: waiting for %s: %w", a.branch.name, context.Cause(ctx))
	if waiter != nil {
		return waiter.branch.refusal(err)
	}
	return &retry.Error{Outcome: retry.Unknown, Evidence: "the branch is still going", Operation: a.branch.name, Err: err}
}
