package sdk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/fanonce/fanonce/retry"
)

// An attempt is one run of a branch: the first, or one of [Fanout.Resume].
type attempt struct {
	branch *branch
	done   chan struct{}
	result Result // written before done is closed

	// Guarded by branch.fan.mu.
	started bool
	ended   bool            // the function returned
	waiting int             // Gets that the function is blocked in
	needs   map[*branch]int // what those wait for
}

func newAttempt(b *branch) *attempt {
	return &attempt{branch: b, done: make(chan struct{}), needs: make(map[*branch]int)}
}

// running reports whether the attempt has begun and not ended, with fan.mu held.
func (a *attempt) running() bool {
	select {
	case <-a.done:
		return false
	default:
		return a.started
	}
}

// finish gives the attempt its result, once, with fan.mu held.
func (a *attempt) finish(result Result) {
	a.started = true
	a.result = result
	close(a.done)
}

type (
	attemptKey struct{ fan *Fanout }
	branchKey  struct{}
)

// context returns the ctx that the branch's function runs in. The attempt is
// found there by its own fan-out, however many fan-outs lie between, and the
// nearest branch of any by those who send.
func (a *attempt) context(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, attemptKey{a.branch.fan}, a)
	return context.WithValue(ctx, branchKey{}, a.branch)
}

// attemptFrom returns the attempt of f that ctx belongs to, or nil.
func attemptFrom(ctx context.Context, f *Fanout) *attempt {
	r, _ := ctx.Value(attemptKey{f}).(*attempt)
	return r
}

// branchFrom returns the nearest branch whose function runs in ctx, or nil.
func branchFrom(ctx context.Context) *branch {
	b, _ := ctx.Value(branchKey{}).(*branch)
	return b
}

// acquire takes one of the fan-out's slots for the attempt.
func (a *attempt) acquire(ctx context.Context) error {
	if ctx.Err() != nil { // select would choose at random
		return context.Cause(ctx)
	}
	select {
	case a.branch.fan.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release gives the slot back for good.
func (a *attempt) release() {
	f := a.branch.fan
	f.mu.Lock()
	a.ended = true
	held := a.waiting == 0
	f.mu.Unlock()
	if held {
		<-f.slots
	}
}

// lend gives the slot to others while the attempt waits for the branch on; the
// function that it returns takes it back. Without that, as many waiting
// branches as there are slots would keep out those that they wait for. It
// returns ErrCycle if on waits for this attempt already.
func (a *attempt) lend(on *branch) (back func(), err error) {
	f := a.branch.fan
	f.mu.Lock()
	if on.reaches(a.branch, nil) {
		f.mu.Unlock()
		return nil, ErrCycle
	}
	a.needs[on]++
	a.waiting++
	held := a.waiting == 1 && !a.ended
	f.mu.Unlock()
	if held {
		<-f.slots
	}
	return func() {
		f.mu.Lock()
		if a.needs[on]--; a.needs[on] == 0 {
			delete(a.needs, on)
		}
		a.waiting--
		retake := a.waiting == 0 && !a.ended
		f.mu.Unlock()
		if retake {
			f.slots <- struct{}{} // holders run, and so end: this cannot block for ever
		}
	}, nil
}

// reaches reports whether b is target or waits for it, with fan.mu held.
func (b *branch) reaches(target *branch, seen map[*branch]bool) bool {
	if b == target {
		return true
	}
	if seen == nil {
		seen = make(map[*branch]bool)
	}
	if seen[b] {
		return false
	}
	seen[b] = true
	for next := range b.attempt.needs {
		if next.reaches(target, seen) {
			return true
		}
	}
	return false
}

// Start starts the branches that were given so far and returns; [Fanout.Wait]
// does so by itself. Use it to do something else meanwhile.
func (f *Fanout) Start() {
	f = f.made()
	f.mu.Lock()
	defer f.mu.Unlock()
	var pending []*attempt
	refused := f.err
	for _, b := range f.branches {
		if b.attempt.started {
			continue
		}
		pending = append(pending, b.attempt)
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
		go r.run(f.ctx)
	}
}

// refuse ends an attempt that was not begun: because of its own mistake, or of
// the plan's. fan.mu is held.
func (a *attempt) refuse(plan error) {
	err := a.branch.invalid
	if err == nil {
		err = a.branch.refusal(plan)
	}
	a.finish(a.branch.result(nil, err))
}

// run runs the branch; what follows its function is deferred, so that a panic
// or a Goexit leaves neither a slot taken nor a Future without a result.
func (a *attempt) run(ctx context.Context) {
	b := a.branch
	ctx = b.made.Context(a.context(ctx))
	if err := a.acquire(ctx); err != nil {
		a.end(nil, b.refusal(fmt.Errorf("sdk: not begun: %w", err)))
		return
	}
	if !b.single {
		defer a.enter()()
	}
	var value any
	var err error = &PanicError{Value: "runtime.Goexit"} // unless it returns, or panics
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		a.release()
		a.end(value, err)
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

func (a *attempt) end(value any, err error) {
	result := a.branch.result(value, err)
	a.branch.fan.mu.Lock()
	defer a.branch.fan.mu.Unlock()
	a.finish(result)
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
		outcome, evidence = classifyFunction(err, &b.made)
	}
	return Result{Name: b.name, Outcome: outcome, Err: withOutcome(b, outcome, evidence, err)}
}

// outcomeOfCall returns what err and the earlier attempts say of the call that the branch is.
func (b *branch) outcomeOfCall(err error) (retry.Outcome, string) {
	outcome, evidence := outcomeOf(err)
	made := b.made.Outcome()
	if (outcome == retry.NotSent || outcome == retry.Rejected) && (made == retry.Unknown || made == retry.Completed) {
		return retry.Unknown, "an earlier run of the call took effect, or may have"
	}
	return outcome, evidence
}
