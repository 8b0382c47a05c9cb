package sdk

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

// Start starts the branches that were given so far and returns; [Fanout.Wait]
// does so by itself. Use it to do something else meanwhile.
func (f *Fanout) Start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	var pending []*round
	refused := f.err
	for _, b := range f.branches {
		if b.round.started {
			continue
		}
		pending = append(pending, b.round)
		if b.invalid != nil && refused == nil {
			refused = ErrPlan
		}
	}
	if refused != nil {
		for _, r := range pending {
			r.refuse(refused)
		}
		return
	}
	shares := f.shares(len(pending))
	for i, r := range pending {
		r.started = true
		go r.run(shares[i])
	}
}

// refuse ends a round that was not begun: because of its own mistake, or of
// the plan's. fan.mu is held.
func (r *round) refuse(plan error) {
	err := r.branch.invalid
	if err == nil {
		err = r.branch.refusal(plan)
	}
	r.finish(r.branch.result(nil, err))
}

// A share is what a branch has of the retries that the request was allowed: branches
// that start together divide what is left of them, lest a fan-out of fan-outs
// multiplies them, and give back what they did not use.
type share struct {
	ctx  context.Context
	from *wire.Retries // nil: the request said nothing
}

// shares divides what is left among n branches.
func (f *Fanout) shares(n int) []share {
	shares := make([]share, n)
	in, _ := wire.FromContext(f.ctx)
	from := in.Retries()
	left := from.Left()
	for i := range shares {
		if from == nil {
			shares[i] = share{ctx: f.ctx}
			continue
		}
		part := left / n
		if i < left%n {
			part++
		}
		own := in.Apart()
		own.Allowance = from.TakeUpTo(part)
		shares[i] = share{wire.NewContext(f.ctx, own), from}
	}
	return shares
}

// end gives back what is left of the share.
func (s share) end() {
	if s.from != nil {
		in, _ := wire.FromContext(s.ctx)
		s.from.Give(in.Retries().TakeUpTo(in.Allowance))
	}
}

// run runs the branch; what follows its function is deferred, so that a panic
// or a Goexit leaves neither a slot taken nor a Future without a result.
func (r *round) run(s share) {
	defer s.end()
	ctx := r.context(s.ctx)
	b := r.branch
	if err := r.acquire(ctx); err != nil {
		r.end(nil, b.refusal(fmt.Errorf("sdk: not begun: %w", err)))
		return
	}
	var value any
	var err error = &PanicError{Value: "runtime.Goexit"} // unless it returns, or panics
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		r.release()
		r.end(value, err)
	}()
	value, err = b.run(ctx)
}

func (r *round) end(value any, err error) {
	result := r.branch.result(value, err)
	r.branch.fan.mu.Lock()
	defer r.branch.fan.mu.Unlock()
	r.finish(result)
}

// result says what a branch that ended so leaves behind.
func (b *branch) result(value any, err error) Result {
	if err == nil {
		return Result{Name: b.name, Outcome: retry.Completed, Value: value}
	}
	outcome, evidence := outcomeOf(err)
	if (outcome == retry.NotSent || outcome == retry.Rejected) && b.effects() {
		outcome, evidence = retry.Unknown, "another call of the branch took effect, or may have"
	}
	return Result{Name: b.name, Outcome: outcome, Err: withOutcome(b, outcome, evidence, err)}
}
