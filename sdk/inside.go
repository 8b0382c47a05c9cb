package sdk

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/fanonce/fanonce/retry"
)

// inside has the rounds whose functions are running, by the goroutines that run them.
var inside sync.Map

// enter notes that the goroutine runs the round's function, until leave is called.
func (r *round) enter() (leave func()) {
	id := goroutine()
	inside.Store(id, r)
	return func() { inside.Delete(id) }
}

// goroutine returns what names the calling goroutine while it runs. [Fanout.Wait] has no
// ctx that would say in which branch it is called, and to wait there is to wait for ever.
func goroutine() string {
	const longest = len("goroutine 18446744073709551615 ")
	var stack [longest]byte
	text := stack[:runtime.Stack(stack[:], false)]
	end := bytes.IndexByte(text, '[')
	if end < 0 {
		end = len(text)
	}
	return string(text[:end])
}

// waitsForItself returns the error of a function of a branch that waits for its own
// fan-out, or for one around it; nil if no branch calls.
func (f *Fanout) waitsForItself(ctx context.Context) *retry.Error {
	if r := roundFrom(ctx, f); r != nil && r.branch.runs(r) {
		return r.branch.waits()
	}
	running, _ := inside.Load(goroutine())
	r, _ := running.(*round)
	if r == nil {
		return nil
	}
	for b := r.branch; b != nil; b = b.up {
		if b.fan == f {
			return b.waits()
		}
	}
	return nil
}

// runs reports whether r is the round of b that is running.
func (b *branch) runs(r *round) bool {
	b.fan.mu.Lock()
	defer b.fan.mu.Unlock()
	return b.round == r && r.running()
}

func (b *branch) waits() *retry.Error {
	return refuse("", b.name, b.key, fmt.Errorf("%w: %s waits for the fan-out that it is part of", ErrCycle, b.name))
}
