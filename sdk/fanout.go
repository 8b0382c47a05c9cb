package sdk

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/retry"
)

// A Fanout is several calls on behalf of one request, as branches ([Add],
// [AddFunc]) that run side by side. Make one with [Client.Fanout].
//
// Branches are a plan until [Fanout.Wait], [Fanout.Start] or the first [Future.Get] starts
// them. A mistake in one of them, such as a duplicate, an undeclared service or an input
// that cannot be encoded, is found before anything is sent. Then nothing is sent. A branch
// that was started runs to its end, even if another one fails: to cancel a running call
// would make its outcome unknown. A branch that needs another one's result calls Get of its
// Future.
//
// Wait says what became of each. To resume, run the same code again under the same parent
// key, in this process or another. Every call has the same key, and the callees replay the
// answers of finished calls. [Resumable] reports whether that can help.
//
// A Fanout is safe for concurrent use.
type Fanout struct {
	client *Client
	ctx    context.Context // of the branches

	mu        sync.Mutex
	err       error // what is wrong with the fan-out itself
	branches  []*branch
	names     map[string]*branch
	owners    map[childkey.Key]*branch
	calls     []*madeCall // in the order in which they were composed
	noted     map[childkey.Key]*madeCall
	abandoned bool // it was undone before it started
	given     bool // something was given to it, be it an empty list
	waited    bool

	slots chan struct{} // of [Config.MaxParallel]
}

// Fanout returns an empty fan-out for the request whose parent key ctx carries. Every
// branch runs in ctx. When ctx ends, running calls stop as Unknown, and branches that did
// not begin end as NotSent. If ctx is without a parent key or c is nil, Wait returns an error
// and nothing is sent.
func (c *Client) Fanout(ctx context.Context) *Fanout {
	f := newFanout(ctx)
	f.client = c
	if _, ok := childkey.FromContext(ctx); !ok {
		f.err = ErrNoParent
	}
	if c == nil {
		f.err = errNoClient
		return f
	}
	f.slots = make(chan struct{}, c.maxParallel)
	return f
}

func newFanout(ctx context.Context) *Fanout {
	return &Fanout{ctx: ctx, names: make(map[string]*branch), owners: make(map[childkey.Key]*branch), noted: make(map[childkey.Key]*madeCall)}
}

// made returns f. For a Fanout that [Client.Fanout] did not make, it returns another one,
// which refuses every branch.
func (f *Fanout) made() *Fanout {
	if f != nil && f.names != nil {
		return f
	}
	f = newFanout(context.Background())
	f.err = fmt.Errorf("%w: the Fanout is nil; make one with Client.Fanout", ErrBranch)
	return f
}

// Add adds the call of op with in to the fan-out, as a branch named "service.operation",
// with op's discriminators in brackets behind it. The input is encoded now, so later
// changes behind its pointers do not matter. The call is made as [Call] makes it. A mistake
// is found when the fan-out starts; then no branch is sent.
func Add[In, Out any](f *Fanout, op contract.Operation[In, Out], in In, options ...CallOption) *Future[Out] {
	f = f.made()
	b := newBranch(f, branchName(op.Service(), op.Name(), op.Discriminators()))
	out, err := composeOp(f.ctx, f.client, op, in, options)
	if err != nil {
		b.invalid = err
		return futureOf[Out](b)
	}
	b.makes(out, func(resp *retry.Response) (any, error) { return decode[Out](op.Codec(), out, resp) })
	return futureOf[Out](b)
}

// AddFunc adds a branch that runs fn. It is for calls that need the result of another
// branch, and for work that is not an operation. name is unique in the fan-out; no key
// depends on it. fn must make its calls, and call [Future.Get], with its own ctx. If fn
// panics or ends its goroutine, its branch fails with a [PanicError] and no other.
//
// A branch whose fn returns an error is Unknown by default. It is NotSent or Rejected on
// two conditions: each part of the error says so, and no call that fn made with its ctx may
// have taken effect. In a rerun an earlier run of fn may have taken another path and called
// something else: then a refusal counts only if fn states it, with [Rejected]. A plain error
// states nothing. fn runs again after a restart, so its other work must be repeatable.
func AddFunc[Out any](f *Fanout, name string, fn func(ctx context.Context) (Out, error)) *Future[Out] {
	b := newBranch(f.made(), name)
	if fn != nil {
		b.run = func(ctx context.Context) (any, error) { return fn(ctx) }
	}
	return futureOf[Out](b)
}

// AddEach adds the call of op for every item. idOf tells the items apart. It returns an id
// that an item keeps across restarts, such as a SKU, and never its position in the list. The
// id is appended to op's discriminators, and two items with one id are refused like any
// duplicate. The futures are in the order of items. With no items the fan-out is not
// changed, and Wait takes that for intended. A nil idOf or inOf is an [ErrBranch].
func AddEach[Item, In, Out any](
	f *Fanout, op contract.Operation[In, Out], items []Item, idOf func(Item) string, inOf func(Item) In,
) []*Future[Out] {
	f = f.made()
	f.mu.Lock()
	f.given = true
	f.mu.Unlock()
	if idOf == nil || inOf == nil {
		b := newBranch(f, branchName(op.Service(), op.Name(), op.Discriminators()))
		b.invalid = b.refusal(fmt.Errorf("%w: the function for ids and inputs is nil", ErrBranch))
		return slices.Repeat([]*Future[Out]{futureOf[Out](b)}, len(items))
	}
	futures := make([]*Future[Out], 0, len(items))
	for _, item := range items {
		one := op.For(append(slices.Clip(op.Discriminators()), idOf(item))...)
		futures = append(futures, Add(f, one, inOf(item)))
	}
	return futures
}

// futureOf gives b to its fan-out and returns its result.
func futureOf[Out any](b *branch) *Future[Out] {
	b.fan.add(b)
	return &Future[Out]{branch: b}
}

// Wait starts the branches and blocks until every one of them has ended. It
// returns nil if all succeeded, else a [*FanoutError] that names each with its
// outcome. A fan-out that was given nothing gets [ErrNoCalls]; an [AddEach] over
// no items counts as something.
//
// Wait may be called again, and by several goroutines; it gives the same answer. A branch
// that is given to the fan-out after Wait was called is not run, and its Future has
// [ErrWaited].
//
// A function of one of the fan-out's own branches must not call Wait: it would wait for its
// own end. It calls [Future.Get] for the branches that it needs.
func (f *Fanout) Wait() error {
	f = f.made()
	f.mu.Lock()
	f.waited = true
	f.mu.Unlock()
	f.Start()

	f.mu.Lock()
	branches, given, err := slices.Clone(f.branches), f.given, f.err
	f.mu.Unlock()

	results := make([]Result, len(branches))
	failed := false
	for i, b := range branches {
		<-b.done
		results[i] = b.result
		failed = failed || b.result.Err != nil
	}
	switch {
	case failed:
		return &FanoutError{Results: results}
	case len(branches) > 0:
		return nil
	case err != nil:
		return refuse("", "", childkey.Key{}, err)
	case !given:
		return refuse("", "", childkey.Key{}, ErrNoCalls)
	}
	return nil
}

// A Future is the result of a branch of a fan-out, once there is one. It is
// safe for concurrent use; the zero Future belongs to no branch.
type Future[Out any] struct{ branch *branch }

// Name returns the name of the branch.
func (f *Future[Out]) Name() string {
	if f == nil || f.branch == nil {
		return ""
	}
	return f.branch.name
}

// Get returns the result of the branch and blocks until there is one or ctx
// ends. It starts the fan-out if nobody did.
//
// Inside a branch of the same fan-out call it with the ctx of that branch:
// then it is a dependency. While it waits the branch does not count for
// [Config.MaxParallel], nor afterwards if ctx ends before there is room for it again. If
// the other branch failed the error is a [DependencyError], of outcome NotSent: return it.
// Branches that wait for each other get [ErrCycle]. Anywhere else the error is that of the branch.
func (f *Future[Out]) Get(ctx context.Context) (Out, error) {
	var none Out
	if f == nil || f.branch == nil {
		return none, refuse("", "", childkey.Key{}, fmt.Errorf("%w: the Future is zero; Add returns one", ErrBranch))
	}
	value, err := f.branch.await(ctx)
	if err != nil {
		return none, err
	}
	out, _ := value.(Out) // fails for a nil interface only, which none is
	return out, nil
}

func (b *branch) await(ctx context.Context) (any, error) {
	b.fan.Start()
	waiter := branchOf(ctx, b.fan)
	if err := b.wait(ctx, waiter); err != nil {
		return nil, err
	}
	switch {
	case b.result.Err == nil:
		return b.result.Value, nil
	case waiter == nil:
		return nil, b.result.Err
	default:
		return nil, waiter.refusal(&DependencyError{Branch: waiter.name, Dependency: b.name, Err: b.result.Err})
	}
}

// wait blocks until b is done, and waiter may go on, or until ctx ends. waiter is the branch
// that waits, nil for a caller outside of the fan-out.
func (b *branch) wait(ctx context.Context, waiter *branch) error {
	if b.isDone() {
		return nil
	}
	back := func(context.Context) error { return nil }
	if waiter != nil {
		var err error
		if back, err = waiter.lend(b); err != nil {
			return waiter.refusal(err)
		}
	}
	select {
	case <-b.done:
	case <-ctx.Done():
	}
	ended := back(ctx)
	if b.isDone() { // a result is worth more than a slot, or the end of ctx
		return nil
	}
	if ended == nil {
		ended = context.Cause(ctx)
	}
	err := fmt.Errorf("sdk: waiting for %s: %w", b.name, ended)
	if waiter != nil {
		return waiter.refusal(err)
	}
	return &retry.Error{Outcome: retry.Unknown, Evidence: "the branch is still going", Operation: b.name, Err: err}
}

func (b *branch) isDone() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}
