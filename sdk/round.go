package sdk

import (
	"context"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A round is one run of a branch: the first, or one of [Fanout.Resume].
type round struct {
	branch *branch
	done   chan struct{}
	result Result        // written before done is closed
	part   *wire.Retries // that its calls may use; nil: nobody counts them. Guarded by branch.fan.mu

	// Guarded by branch.fan.mu.
	started bool
	ended   bool            // the function returned
	waiting int             // Gets that the function is blocked in
	needs   map[*branch]int // what those wait for
}

func newRound(b *branch) *round {
	return &round{branch: b, done: make(chan struct{}), needs: make(map[*branch]int)}
}

// running reports whether the round has begun and not ended, with fan.mu held.
func (r *round) running() bool {
	select {
	case <-r.done:
		return false
	default:
		return r.started
	}
}

// finish gives the round its result, once, with fan.mu held.
func (r *round) finish(result Result) {
	r.started = true
	r.result = result
	close(r.done)
}

type (
	roundKey  struct{ fan *Fanout }
	branchKey struct{}
)

// context returns the ctx that the branch's function runs in. The round is
// found there by its own fan-out, however many fan-outs lie between, and the
// nearest branch of any by those who send.
func (r *round) context(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, roundKey{r.branch.fan}, r)
	return context.WithValue(ctx, branchKey{}, r.branch)
}

// roundFrom returns the round of f that ctx belongs to, or nil.
func roundFrom(ctx context.Context, f *Fanout) *round {
	r, _ := ctx.Value(roundKey{f}).(*round)
	return r
}

// branchFrom returns the nearest branch whose function runs in ctx, or nil.
func branchFrom(ctx context.Context) *branch {
	b, _ := ctx.Value(branchKey{}).(*branch)
	return b
}

// acquire takes one of the fan-out's slots for the round.
func (r *round) acquire(ctx context.Context) error {
	if ctx.Err() != nil { // select would choose at random
		return context.Cause(ctx)
	}
	select {
	case r.branch.fan.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release gives the slot back for good.
func (r *round) release() {
	f := r.branch.fan
	f.mu.Lock()
	r.ended = true
	held := r.waiting == 0
	f.mu.Unlock()
	if held {
		<-f.slots
	}
}

// lend gives the slot to others while the round waits for the branch on; the
// function that it returns takes it back. Without that, as many waiting
// branches as there are slots would keep out those that they wait for. It
// returns ErrCycle if on waits for this round already.
func (r *round) lend(on *branch) (back func(), err error) {
	f := r.branch.fan
	f.mu.Lock()
	if on.reaches(r.branch, nil) {
		f.mu.Unlock()
		return nil, ErrCycle
	}
	r.needs[on]++
	r.waiting++
	held := r.waiting == 1 && !r.ended
	f.mu.Unlock()
	if held {
		<-f.slots
	}
	return func() {
		f.mu.Lock()
		if r.needs[on]--; r.needs[on] == 0 {
			delete(r.needs, on)
		}
		r.waiting--
		retake := r.waiting == 0 && !r.ended
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
	for next := range b.round.needs {
		if next.reaches(target, seen) {
			return true
		}
	}
	return false
}
