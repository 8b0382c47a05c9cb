package sdk

import (
	"context"
	"errors"
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
	for _, r := range pending {
		r.started = true
		go r.run(r.share(len(pending)))
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

// share returns the ctx of one of n branches that start together. Each may use its part of
// the retries that the request has left, rounded up: so one branch that fails does not take
// those of all others. Together they use no more than there are. A branch that ends passes
// the rest of its part on. fan.mu is held.
func (r *round) share(n int) context.Context {
	ctx := r.branch.fan.ctx
	in, ok := wire.FromContext(ctx)
	if !ok || in.Allowance < 0 {
		return ctx
	}
	in = in.Part((in.Allowance + n - 1) / n)
	r.part = in.Retries()
	return wire.NewContext(ctx, in)
}

// passOn gives the branches that still run what the round has not used. fan.mu is held.
func (r *round) passOn() {
	if r.part == nil {
		return
	}
	var others []*wire.Retries
	for _, b := range r.branch.fan.branches {
		if b.round != r && b.round.running() {
			others = append(others, b.round.part)
		}
	}
	r.part.PassOn(others)
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
	if !b.single {
		defer r.enter()()
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
	if value, err = b.run(ctx); isNil(err) {
		err = errNil
	}
}

// errNil stands for a nil *retry.Error that a function returns as its error: nobody can ask
// that one anything.
var errNil = errors.New("sdk: the function returned a nil *retry.Error as its error")

func isNil(err error) bool {
	failed, ok := err.(*retry.Error) //nolint:errorlint // only what was returned itself can be nil
	return ok && failed == nil
}

func (r *round) end(value any, err error) {
	result := r.branch.result(value, err)
	r.branch.fan.mu.Lock()
	defer r.branch.fan.mu.Unlock()
	r.finish(result)
	r.passOn()
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
