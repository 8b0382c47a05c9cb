package sdk

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
)

type branchKey struct{}

// branchOf returns the branch of f whose function runs in ctx, however many fan-outs lie
// between; nil if there is none.
func branchOf(ctx context.Context, f *Fanout) *branch {
	b := branchFrom(ctx)
	for b != nil && b.fan != f {
		b = b.up
	}
	return b
}

// branchFrom returns the nearest branch whose function runs in ctx, or nil.
func branchFrom(ctx context.Context) *branch {
	b, _ := ctx.Value(branchKey{}).(*branch)
	return b
}

// acquire takes one of the fan-out's slots for the branch.
func (b *branch) acquire(ctx context.Context) error {
	if ctx.Err() != nil { // select would choose at random
		return context.Cause(ctx)
	}
	select {
	case b.fan.slots <- struct{}{}:
		b.fan.mu.Lock()
		surplus := b.holds || b.ended || b.waiting > 0 // meanwhile another Get took it back, or began
		if !surplus {
			b.holds = true
		}
		b.fan.mu.Unlock()
		if surplus {
			<-b.fan.slots
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release gives the slot back for good.
func (b *branch) release() {
	f := b.fan
	f.mu.Lock()
	b.ended = true
	held := b.holds
	b.holds = false
	f.mu.Unlock()
	if held {
		<-f.slots
	}
}

// lend gives the slot to others while the branch waits for the branch on; the
// function that it returns takes it back, and fails if ctx ends first: then the branch goes
// on without a slot. Without that, as many waiting branches as there are slots would keep
// out those that they wait for. It returns ErrCycle if on waits for this branch already.
func (b *branch) lend(on *branch) (back func(context.Context) error, err error) {
	f := b.fan
	f.mu.Lock()
	if on.reaches(b, nil) {
		f.mu.Unlock()
		return nil, ErrCycle
	}
	b.needs[on]++
	b.waiting++
	held := b.holds
	b.holds = false
	f.mu.Unlock()
	if held {
		<-f.slots
	}
	return func(ctx context.Context) error {
		f.mu.Lock()
		if b.needs[on]--; b.needs[on] == 0 {
			delete(b.needs, on)
		}
		b.waiting--
		retake := b.waiting == 0 && !b.ended
		f.mu.Unlock()
		if !retake {
			return nil
		}
		return b.acquire(ctx)
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
	for next := range b.needs {
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
	var pending []*branch
	refused := f.err
	for _, b := range f.branches {
		if b.started {
			continue
		}
		pending = append(pending, b)
		if b.invalid != nil && refused == nil {
			refused = ErrPlan
		}
	}
	if refused != nil {
		for _, b := range pending {
			b.refuse(refused)
		}
		return
	}
	for _, b := range pending {
		b.started = true
		go b.start(f.ctx)
	}
}

// refuse ends a branch that was not begun: because of its own mistake, or of the plan's.
// fan.mu is held.
func (b *branch) refuse(plan error) {
	err := b.invalid
	if err == nil {
		err = b.refusal(plan)
	}
	b.finish(b.resultOf(nil, err))
}

// start runs the branch. The end of the branch is deferred, so that after a panic or a
// Goexit of its function no slot stays taken and no Future waits for ever.
func (b *branch) start(ctx context.Context) {
	ctx = b.made.Context(context.WithValue(ctx, branchKey{}, b))
	if err := b.acquire(ctx); err != nil {
		b.end(nil, b.refusal(fmt.Errorf("sdk: not begun: %w", err)))
		return
	}
	var value any
	var err error = &PanicError{Value: "runtime.Goexit"} // unless it returns, or panics
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
		b.release()
		b.end(value, err)
	}()
	b.began = true
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

func (b *branch) end(value any, err error) {
	result := b.resultOf(value, err)
	b.fan.mu.Lock()
	defer b.fan.mu.Unlock()
	b.finish(result)
}

// finish gives the branch its result, once. fan.mu is held.
func (b *branch) finish(result Result) {
	b.started = true
	b.result = result
	close(b.done)
}

// resultOf returns what a branch that ended so leaves behind.
func (b *branch) resultOf(value any, err error) Result {
	if err == nil {
		return Result{Name: b.name, Outcome: retry.Completed, Value: value}
	}
	var outcome retry.Outcome
	var evidence string
	if b.single {
		outcome, evidence = outcomeOf(err)
	} else {
		in, _ := wire.FromContext(b.fan.ctx)
		outcome, evidence = classifyFunction(err, &b.made, in.Rerun && b.began)
	}
	return Result{Name: b.name, Outcome: outcome, Err: withOutcome(b, outcome, evidence, err)}
}
