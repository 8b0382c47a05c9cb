package sdk

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
)

// A branch is one entry of a fan-out. A nil branch is a call outside of any.
type branch struct {
	fan     *Fanout
	up      *branch // the branch of another fan-out that this one's fan-out was made in
	name    string
	call    *outgoing                              // of an Add branch; nil for AddFunc
	key     childkey.Key                           // of call
	run     func(ctx context.Context) (any, error) // nil if invalid
	invalid error                                  // what is wrong with it as it was given
	single  bool                                   // run is one call, whose error is the branch's
	made    retry.Calls                            // by run
	began   bool                                   // run was called

	done   chan struct{}
	result Result // written before done is closed

	// Guarded by fan.mu.
	started bool
	ended   bool            // the function returned
	holds   bool            // one of the fan-out's slots
	waiting int             // Gets that the function is blocked in
	needs   map[*branch]int // what those wait for
}

func newBranch(f *Fanout, name string) *branch {
	return &branch{fan: f, name: name, done: make(chan struct{}), needs: make(map[*branch]int)}
}

// makes makes the call out what the branch does; read returns the result of its answer.
func (b *branch) makes(out *outgoing, read func(*retry.Response) (any, error)) {
	b.call, b.key, b.single = out, out.call.Key, true
	b.run = func(ctx context.Context) (any, error) {
		resp, err := out.deliver(ctx)
		if err != nil {
			return nil, err
		}
		return read(resp)
	}
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
		b.finish(Result{Name: b.name, Outcome: retry.NotSent, Err: b.refusal(ErrWaited)})
		return
	}
	b.up = branchFrom(f.ctx)
	switch {
	case b.invalid != nil:
	case b.name == "":
		b.invalid = b.refusal(fmt.Errorf("%w: the name is empty", ErrBranch))
	case b.run == nil:
		b.invalid = b.refusal(fmt.Errorf("%w: the function is nil", ErrBranch))
	case f.owners[b.key] != nil:
		b.invalid = b.refusal(fmt.Errorf("%w: %s was given twice; give the calls discriminators",
			childkey.ErrDuplicateChild, b.name))
	case f.names[b.name] != nil:
		b.invalid = b.refusal(fmt.Errorf("%w: another one has the name %s", ErrBranch, b.name))
	default:
		f.names[b.name] = b
		if !b.key.IsZero() {
			f.owners[b.key] = b
			f.note(b.call)
		}
	}
	f.branches = append(f.branches, b)
}

func (b *branch) refusal(err error) error {
	return refuse("", b.name, b.key, err)
}

// takeCall makes the call with this key the branch's, in every fan-out that the
// branch is part of. A branch may repeat its own call; another branch may not,
// since that would be one call with two results.
func (b *branch) takeCall(key childkey.Key) error {
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
