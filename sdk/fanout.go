package sdk

import (
	"context"
	"fmt"
	"sync"

	"github.com/fanonce/fanonce/childkey"
)

// A Fanout is several calls on behalf of one request, as branches ([Go],
// [GoFunc]) that run side by side. Make one with [Client.Fanout].
//
// Branches are a plan until [Fanout.Wait], [Fanout.Start] or the first
// [Future.Get] starts them: a mistake in one of them (a duplicate, an
// undeclared service, an input that cannot be encoded) is found before anything
// of the plan is sent, and then nothing is. Once started every branch runs to
// its end, whatever becomes of the others: cancelling a call that is under way
// would make its outcome unknown. A branch that needs another one's result
// calls Get of its Future.
//
// Wait says what became of each. Running the same code again, under the same
// parent key, resumes: in this process or another, every call has its key, and
// the callees answer for what is done. [Fanout.Resume] does so for the branches
// that can still change, and keeps the results of the others.
//
// A Fanout is safe for concurrent use.
type Fanout struct {
	client *Client
	limit  int

	mu       sync.Mutex
	ctx      context.Context // of the round that is on, or of the next
	err      error           // what is wrong with the fan-out itself
	branches []*branch
	names    map[string]*branch
	owners   map[childkey.Key]*branch
	given    bool // something was given to it, be it an empty list
	waited   bool

	rounds sync.Mutex // held by Resume: one at a time
	slots  chan struct{}
}

// A FanoutOption changes one fan-out.
type FanoutOption func(*Fanout)

// MaxParallel sets how many branches run at a time, at least 1; the default is
// [Config.MaxParallel]. A branch that waits for another one does not count.
func MaxParallel(n int) FanoutOption {
	return func(f *Fanout) {
		if n < 1 && f.err == nil {
			f.err = fmt.Errorf("%w: MaxParallel: %d is less than 1", ErrConfig, n)
		}
		f.limit = n
	}
}

// Fanout returns an empty fan-out for the request whose parent key ctx carries.
// Every branch runs in ctx; once it ends, calls under way stop as Unknown, and
// branches that have not begun as NotSent. If ctx has no parent key or an
// option is wrong, or c is nil, Wait says so and nothing is sent.
func (c *Client) Fanout(ctx context.Context, options ...FanoutOption) *Fanout {
	f := newFanout(ctx)
	f.client = c
	if _, ok := childkey.FromContext(ctx); !ok {
		f.err = ErrNoParent
	}
	if c == nil {
		f.err = errNoClient
	} else {
		f.limit = c.maxParallel
	}
	for _, option := range options {
		option(f)
	}
	f.slots = make(chan struct{}, max(f.limit, 1))
	return f
}

func newFanout(ctx context.Context) *Fanout {
	return &Fanout{ctx: ctx, names: make(map[string]*branch), owners: make(map[childkey.Key]*branch)}
}

// made returns f, or in place of one that [Client.Fanout] did not make another, which
// refuses every branch.
func (f *Fanout) made() *Fanout {
	if f != nil && f.names != nil { // not ctx, which Resume may be changing
		return f
	}
	f = newFanout(context.Background())
	f.err = fmt.Errorf("%w: no fan-out; make one with Client.Fanout", ErrBranch)
	return f
}
