package engine

import (
	"context"
	"sync"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/internal/runctx"
	"github.com/fanonce/fanonce/server/store"
)

// An Attempt is one execution of the handler. A run has one attempt, or several if conflicts made it start over. Each
// has its own state: an attempt's registrations do not count for the next attempt.
type Attempt struct {
	run *run
	tx  store.Tx // of a Transactional run

	committed bool // tx, for certain

	mu      sync.Mutex
	over    bool
	how     Settling
	hooks   []func(context.Context) error
	fate    store.Fate // Barrier's finding
	refusal wire.Code  // by which Barrier ended this run
	cause   error
}

// A Settling is the handler's own decision about the end of its run.
type Settling struct {
	Final        bool // the answer is stored, whatever its status
	Release      bool // the next call runs; wins over Final
	KeepRows     bool // a refusal keeps its rows and hooks
	Unrun        bool // the handler began nothing: the key is released, and no effect counts; wins over all
	NotRetryable bool
	DeadLetter   bool    // the stored answer is the report that the work was given up
	Reference    *string // is stored instead of the answer
}

// From returns the attempt that ctx belongs to; nil outside a run.
func From(ctx context.Context) *Attempt {
	a, _ := runctx.From(ctx).(*Attempt)
	return a
}

// Fence returns the fence of the run, once its claim is durable; 0 if the claim may be lost.
func (a *Attempt) Fence() int64 {
	if !a.run.makeDurable() {
		return 0
	}
	return a.run.owner.Fence
}

// Number returns which attempt at the work this run is, from 1: one more than earlier runs failed or died.
func (a *Attempt) Number() int {
	return 1 + a.run.record.FailedAttempts + a.run.record.RecoveryAttempts
}

// Call returns the run's call, which is not to be changed.
func (a *Attempt) Call() *Call { return a.run.call }

// Fate returns Barrier's finding. It is 0 if the handler did not call Barrier, or if Barrier does not know. It is 0 for
// a nil attempt.
func (a *Attempt) Fate() store.Fate {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.fate
}

// Settle lets change modify the end of the run that ctx belongs to, unless Settle returns an error. Outside a run
// Settle returns [store.ErrNoRun].
func Settle(ctx context.Context, change func(how *Settling, effect store.Effect) error) error {
	return withAttempt(ctx, func(a *Attempt) error {
		how := a.how
		if err := change(&how, a.run.call.Route.Effect); err != nil {
			return err
		}
		a.how = how
		return nil
	})
}

// OnComplete implements [runctx.Run]: it is [store.OnComplete] inside the run.
func (a *Attempt) OnComplete(fn func(context.Context) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
		return store.ErrNoRun
	case fn == nil:
		return store.ErrNoHook
	case a.run.call.Route.Effect != store.Keyed:
		return store.ErrWrongEffect
	case a.run.engine.txStore == nil:
		return store.ErrNoTxStore
	}
	a.hooks = append(a.hooks, fn)
	return nil
}

// withAttempt calls fn with the locked attempt of ctx, unless the attempt is
// over: a goroutine that outlives its handler must not change a run that is
// being settled.
func withAttempt(ctx context.Context, fn func(*Attempt) error) error {
	a := From(ctx)
	if a == nil {
		return store.ErrNoRun
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return store.ErrNoRun
	}
	return fn(a)
}

// work calls the handler. If the handler panics or ends its goroutine, abandon
// settles the run on the way out. It recovers no panic, so that the panic goes
// on with its own value and stack.
func (a *Attempt) work(ctx context.Context, abandon func()) Result {
	returned := false
	defer func() {
		a.mu.Lock()
		a.over = true
		a.mu.Unlock()
		if !returned {
			abandon()
		}
	}()
	res := a.run.call.Work(runctx.NewContext(ctx, a))
	returned = true
	return res
}

// leastRefusal is the least status of an answer that denies an effect.
const leastRefusal = 400

// discardsRows reports whether the attempt's rows, or those of its hooks, are rolled back although its answer is stored:
// a refusal has no effect, unless the handler said otherwise.
func (a *Attempt) discardsRows(answer store.Answer) bool {
	return answer.Status >= leastRefusal && !a.how.KeepRows
}

// disposition is the disposition of res, unless the handler or its Barrier decided otherwise.
func (a *Attempt) disposition(res Result) Disposition {
	switch {
	case a.refusal != "", a.how.Unrun:
		return Release
	case res.Unfit:
		return Fail
	case a.how.Release:
		return rerun
	case a.how.Final:
		return Store
	default:
		return res.Disposition
	}
}
