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
	f = f.made()
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
	for i, r := range pending {
		r.started = true
		go r.run(f.share(i, len(pending)))
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

// share returns the ctx of the i-th of n branches that start together: none of them uses
// more than its part of the retries that the request has left, lest a fan-out of fan-outs
// multiplies them; what it does not use others may.
func (f *Fanout) share(i, n int) context.Context {
	in, ok := wire.FromContext(f.ctx)
	if !ok || in.Allowance < 0 {
		return f.ctx
	}
	part := in.Allowance / n
	if i < in.Allowance%n {
		part++
	}
	return wire.NewContext(f.ctx, in.Part(part))
}

// run runs the branch; what follows its function is deferred, so that a panic
// or a Goexit leaves neither a slot taken nor a Future without a result.
func (r *round) run(ctx context.Context) {
	b := r.branch
	ctx = b.made.Context(r.context(ctx))
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
	var outcome retry.Outcome
	var evidence string
	if b.single {
		outcome, evidence = b.outcomeOfCall(err)
	} else {
		outcome, evidence = judgeFunction(err, &b.made)
	}
	return Result{Name: b.name, Outcome: outcome, Err: withOutcome(b, outcome, evidence, err)}
}

// outcomeOfCall returns what err and the earlier rounds say of the call that the branch is.
func (b *branch) outcomeOfCall(err error) (retry.Outcome, string) {
	outcome, evidence := outcomeOf(err)
	made := b.made.Outcome()
	if (outcome == retry.NotSent || outcome == retry.Rejected) && (made == retry.Unknown || made == retry.Completed) {
		return retry.Unknown, "an earlier run of the call took effect, or may have"
	}
	return outcome, evidence
}
