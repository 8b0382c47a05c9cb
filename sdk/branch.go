package sdk

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// A branch is one entry of a fan-out. A nil branch is a call outside of any.
type branch struct {
	fan     *Fanout
	up      *branch // the branch of another fan-out that this one's fan-out was made in
	name    string
	key     childkey.Key                           // of an Add branch; zero for AddFunc
	run     func(ctx context.Context) (any, error) // nil if invalid
	invalid error                                  // what is wrong with it as it was given
	single  bool                                   // run is one call, whose error is the branch's
	made    retry.Calls                            // in all attempts

	attempt *attempt // guarded by fan.mu

	mu    sync.Mutex
	calls map[childkey.Key]sent
}

// sent is what a branch knows of one of its calls.
type sent struct {
	first   time.Time     // when the first run sent it
	outcome retry.Outcome // of the latest run
}

func newBranch(f *Fanout, name string) *branch {
	b := &branch{fan: f, name: name, calls: make(map[childkey.Key]sent)}
	b.attempt = newAttempt(b)
	return b
}

// branchName is unique to the tuple as far as names without dots go; of two
// branches with one name the second is refused.
func branchName(service, operation string, discriminators []string) string {
	name := service + "." + operation
	if len(discriminators) == 0 {
		return name
	}
	shown := make([]string, len(discriminators))
	for i, d := range discriminators {
		shown[i] = d
		if strings.ContainsAny(d, `",[]`) || strconv.Quote(d) != `"`+d+`"` {
			shown[i] = strconv.Quote(d)
		}
	}
	return name + "[" + strings.Join(shown, ",") + "]"
}

// add gives b to the fan-out.
func (f *Fanout) add(b *branch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.given = true
	if f.waited {
		b.attempt.finish(Result{Name: b.name, Outcome: retry.NotSent, Err: b.refusal(ErrWaited)})
		return
	}
	b.up = branchFrom(f.ctx)
	switch {
	case b.invalid != nil:
	case b.name == "":
		b.invalid = b.refusal(fmt.Errorf("%w: no name", ErrBranch))
	case b.run == nil:
		b.invalid = b.refusal(fmt.Errorf("%w: no function", ErrBranch))
	case f.owners[b.key] != nil:
		b.invalid = b.refusal(fmt.Errorf("%w: %s was given twice; give the calls discriminators",
			childkey.ErrDuplicateChild, b.name))
	case f.names[b.name] != nil:
		b.invalid = b.refusal(fmt.Errorf("%w: there is another one with this name", ErrBranch))
	default:
		f.names[b.name] = b
		if !b.key.IsZero() {
			f.owners[b.key] = b
		}
	}
	f.branches = append(f.branches, b)
}

func (b *branch) refusal(err error) error {
	return refuse("", b.name, b.key, err)
}

// own makes the call with this key the branch's, in every fan-out that the
// branch is part of. A branch may repeat its own call; another branch may not,
// since that would be one call with two results.
func (b *branch) own(key childkey.Key) error {
	for ; b != nil; b = b.up {
		b.fan.mu.Lock()
		owner := b.fan.owners[key]
		if owner == nil {
			b.fan.owners[key] = b
		}
		b.fan.mu.Unlock()
		if owner != nil && owner != b {
			return fmt.Errorf("%w: %s makes the same call as %s; give the calls discriminators",
				childkey.ErrDuplicateChild, b.name, owner.name)
		}
	}
	return nil
}

// earlier returns when an earlier run sent the call that took effect, or may have; false
// if there is none.
func (b *branch) earlier(key childkey.Key) (first time.Time, ok bool) {
	if b == nil {
		return time.Time{}, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.calls[key]
	return s.first, ok && (s.outcome == retry.Completed || s.outcome == retry.Unknown)
}

// note records how a call of the branch ended.
func (b *branch) note(key childkey.Key, first time.Time, err error) {
	outcome := outcomeOfCall(err)
	for ; b != nil; b = b.up {
		b.mu.Lock()
		b.calls[key] = sent{first: first, outcome: outcome}
		b.mu.Unlock()
	}
}

// inside has the attempts whose functions are running, by the goroutines that run them.
var inside sync.Map

// enter notes that the goroutine runs the attempt's function, until leave is called.
func (a *attempt) enter() (leave func()) {
	id := goroutine()
	inside.Store(id, a)
	return func() { inside.Delete(id) }
}

// goroutine returns what names the calling goroutine while it runs. [Fanout.Wait] gets no
// ctx that would name its branch. To wait in a branch is to wait for ever.
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
	if r := attemptFrom(ctx, f); r != nil && r.branch.runs(r) {
		return r.branch.waits()
	}
	running, _ := inside.Load(goroutine())
	r, _ := running.(*attempt)
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

// runs reports whether r is the attempt of b that is running.
func (b *branch) runs(r *attempt) bool {
	b.fan.mu.Lock()
	defer b.fan.mu.Unlock()
	return b.attempt == r && r.running()
}

func (b *branch) waits() *retry.Error {
	return refuse("", b.name, b.key, fmt.Errorf("%w: %s waits for the fan-out that it is part of", ErrCycle, b.name))
}
