package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

const (
	// openPause is the wait before [Open] repeats an operation that failed for the
	// first time. Each further wait is twice as long, up to openPauseCap.
	openPause    = 100 * time.Millisecond
	openPauseCap = time.Second
	// planTimeout is the least that one attempt to store a plan may take.
	planTimeout = 5 * time.Second
)

// Config are what an engine is told. The front has checked them, and filled them in.
type Config struct {
	Plans  []*graph.Plan
	Client *sdk.Client // nil: no plan has an operation

	Lease, Poll, Keep, SweepInterval           time.Duration
	MaxActive, MaxRecoveryAttempts, SweepBatch int

	Backoff retry.Backoff
	OnStuck func(context.Context, journal.Record) // nil: nobody is told
	Observe func(context.Context, journal.Event)  // nil: nobody listens
	Tracer  Tracer                                // nil: nobody listens
	Rand    func() float64
	// Child returns the saga whose end an error is; false if it is another error.
	Child func(error) (Child, bool)
}

// maxAsked is the longest wait that a callee can ask for.
const maxAsked = time.Hour

// wait returns the wait before the next attempt of a call, of which n ended. Zero fields of
// the step's own backoff are the engine's.
func (c *Config) wait(own retry.Backoff, n int, asked time.Duration) time.Duration {
	b := graph.FillBackoff(own, c.Backoff)
	wait := b.Cap
	if shift := max(n, 1) - 1; shift < 40 && b.Base <= b.Cap>>shift {
		wait = b.Base << shift
	}
	less := min(max(b.Jitter*c.Rand(), 0), 1)
	wait -= time.Duration(float64(wait) * less)
	return max(wait, min(asked, maxAsked), time.Millisecond)
}

// Open stores the plans, begins the engine's lease and its loops. Its error is a
// [*planChanged] if the journal has another plan.
func Open(ctx context.Context, j journal.Journal, c Config) (*Engine, error) {
	e := &Engine{
		Operator: *NewOperator(j, c.Plans, c.Keep), cfg: c,
		poke: make(chan struct{}, 1), asked: make(chan struct{}, 1), seeks: make(chan struct{}, 1),
		closing:    make(chan struct{}),
		running:    running{calls: make(map[callID]*runningCall)},
		executions: make(map[journal.ID]*execution), bells: make(map[journal.ID]*bell), sought: make(map[journal.ID]time.Time),
		deferrals: make(map[journal.PlanHash]deferral),
		lookout:   newLookout(),
	}
	e.observe, e.onChange, e.sent = c.Observe, e.evictOwner, e.onSent
	e.ctx, e.stop = context.WithCancel(context.Background())
	if err := e.begins(ctx); err != nil {
		e.stop()
		return nil, err
	}
	e.look()
	e.reconcileSoon()
	for _, loop := range []func(context.Context){e.heartbeat, e.claim, e.reconcile, e.findStarted, e.lookOut, e.hearSignals} {
		e.loops.Go(func() { loop(e.ctx) })
	}
	return e, nil
}

// begins stores the plans, and begins the engine's lease.
func (e *Engine) begins(ctx context.Context) error {
	for _, p := range e.cfg.Plans {
		if err := e.register(ctx, p); err != nil {
			return err
		}
		e.hashes = append(e.hashes, p.Record.Hash)
	}
	return e.firstLease(ctx)
}

// register stores the plan, and checks that the journal does not have another plan.
func (e *Engine) register(ctx context.Context, p *graph.Plan) error {
	var stored journal.PlanRecord
	err := e.repeat(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, max(planTimeout, e.cfg.Lease/3))
		defer cancel()
		stored, err = e.journal.Plan(ctx, p.Record)
		return err
	})
	if err != nil {
		return fmt.Errorf("saga: open: plan %s: %w", p.Name, errtext.Inner(err))
	}
	if stored.Hash != p.Record.Hash {
		return &graph.PlanChanged{Plan: p, Problem: graph.CompareRecords(p.Record, stored)}
	}
	return nil
}

// firstLease begins the engine's lease. A heartbeat whose fate is unknown may have begun the
// lease, so the next attempt is for the same ID. That one extends the lease if it is there.
func (e *Engine) firstLease(ctx context.Context) error {
	id := newEngineID()
	err := e.repeat(ctx, func(ctx context.Context) (err error) {
		e.lease, err = e.takeLeaseAs(ctx, id)
		if errors.Is(err, journal.ErrLeaseLost) { // an earlier heartbeat arrived, and its lease is over
			id = newEngineID()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("saga: open: %w", errtext.Inner(err))
	}
	return nil
}

// repeat calls do until it succeeds, until ctx ends, or until repetition is of no use. do must be
// safe to repeat.
func (e *Engine) repeat(ctx context.Context, do func(ctx context.Context) error) error {
	for wait := openPause; ; wait = min(2*wait, openPauseCap) {
		err := do(ctx)
		if err == nil || errors.Is(err, journal.ErrRefused) || errors.Is(err, journal.ErrCorrupt) {
			return err
		}
		if ctx.Err() == nil {
			e.tell(journal.Event{Kind: journal.EventJournalError, Err: err})
			if pause(ctx, wait) {
				continue
			}
		}
		if errors.Is(err, ctx.Err()) {
			return err
		}
		return fmt.Errorf("%w: %w", Ended(ctx), err)
	}
}

// An Engine is an engine without the types of its users.
type Engine struct {
	Operator

	cfg    Config
	hashes []journal.PlanHash // of the plans

	ctx     context.Context // of the engine's own loops
	stop    context.CancelFunc
	poke    chan struct{} // has the claim loop look at once
	asked   chan struct{} // has the reconcile loop look at once
	seeks   chan struct{} // has findStarted look at once
	wakes   wakes
	lookout *lookout

	running  running       // calls
	closing  chan struct{} // closed by Close
	loops    sync.WaitGroup
	deferred int            // sagas, when the reconcile loop looked last; its own
	work     sync.WaitGroup // executions, their calls, and hooks

	mu         sync.Mutex
	lease      *lease
	executions map[journal.ID]*execution
	// deferrals has the plans of which this build deferred sagas.
	deferrals map[journal.PlanHash]deferral
	bells     map[journal.ID]*bell     // rung when an execution of the saga begins
	sought    map[journal.ID]time.Time // sagas whose start has an unknown fate, and until when to look for them
	closed    bool
}

// Close ends the engine. A second Close returns errClosed.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.closed = true
	close(e.closing)
	e.mu.Unlock()

	idle := make(chan struct{})
	go func() {
		e.work.Wait()
		close(idle)
	}()
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		select {
		case <-idle: // both happened
		default:
			err = fmt.Errorf("saga: close: calls are cut off: %w", Ended(ctx))
		}
	}
	// No heartbeat may follow the end of the lease, and no claim.
	e.stop()
	e.loops.Wait()
	l := e.current()
	l.lose(ErrClosed)
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Lease/3)
	defer cancel()
	if left := e.journal.Leave(leave, l.id); left != nil {
		err = errors.Join(err, fmt.Errorf("saga: close: %w", errtext.Inner(left)))
	}
	return err
}

// adopt executes the saga in r under the lease l, unless it does already.
// It returns nil if the engine is closed, or cannot read the plan. The journal was asked for r
// at the time asked.
func (e *Engine) adopt(l *lease, r journal.Record, from origin, asked time.Time) *execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, own := e.enlist(l, &r, from, asked)
	if own {
		e.work.Go(func() { e.carry(x) })
	}
	return x
}

// enlist returns what executes the saga in r, nil if nothing does. If own is true that is
// new, and the caller's to carry. e.mu is held.
func (e *Engine) enlist(l *lease, r *journal.Record, from origin, asked time.Time) (x *execution, own bool) {
	p := e.plans[r.Plan]
	if e.closed || p == nil {
		return nil, false
	}
	old := e.executions[r.ID]
	if old != nil {
		if old.owner.Fence >= r.Fence {
			return old, false
		}
		old.evict()
	}
	x = newExecution(e, l, p, r, from, asked)
	e.executions[r.ID] = x
	if b := e.bells[r.ID]; b != nil {
		close(b.rung)
		delete(e.bells, r.ID)
	}
	return x, true
}

// carry runs x, and ends it also if a function of the plan ends the goroutine.
func (e *Engine) carry(x *execution) {
	returned := false
	defer func() {
		if !returned {
			x.err = &sdk.PanicError{Value: "runtime.Goexit"}
		}
		x.endTrace()
		e.release(x)
		close(x.over)
	}()
	x.beginTrace()
	x.run()
	returned = true
}

func (e *Engine) release(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.executions[x.owner.ID] == x {
		delete(e.executions, x.owner.ID)
	}
}

// executing returns what executes the saga in this process; nil if nothing does.
func (e *Engine) executing(id journal.ID) *execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.executions[id]
}

// A bell is what waits for an execution of a saga to begin.
type bell struct {
	rung    chan struct{}
	waiting int
}

// listen returns the bell of the saga: it is rung when the engine begins to execute it. The caller
// must call stopListening.
func (e *Engine) listen(id journal.ID) *bell {
	e.mu.Lock()
	defer e.mu.Unlock()
	b := e.bells[id]
	if b == nil {
		b = &bell{rung: make(chan struct{})}
		e.bells[id] = b
	}
	b.waiting++
	return b
}

func (e *Engine) stopListening(id journal.ID, b *bell) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.waiting--; b.waiting == 0 && e.bells[id] == b {
		delete(e.bells, id)
	}
}

// The errors that the engine returns. The front says what they mean.
var (
	ErrKeyReused            = errors.New("saga: the key was used with another input")
	ErrNoDefinition         = errors.New("saga: no such definition")
	ErrDetached       error = &againError{"saga: detached; the saga goes on"}
	ErrNotStarted     error = &againError{"saga: not started by this call"}
	ErrClosed               = errors.New("saga: engine closed")
	ErrNoResult             = errors.New("saga: completed, but without its result")
	ErrConflict             = errors.New("saga: conflict")
	ErrReasonRequired       = errors.New("saga: actor and reason are required")
	ErrNoStep               = errors.New("saga: no such step")
	ErrEncode               = errors.New("saga: input cannot be stored")
)

// An againError is a sentinel after which the saga is to be run again: sdk.Resumable
// reports true.
type againError struct{ text string }

func (a *againError) Error() string   { return a.text }
func (a *againError) Resumable() bool { return true }
