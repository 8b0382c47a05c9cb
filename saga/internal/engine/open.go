package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/retry"
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
	Plans  []*Plan
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
	b := fillBackoff(own, c.Backoff)
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
	}
	e.observe, e.onChange = c.Observe, e.evictOwner
	e.ctx, e.stop = context.WithCancel(context.Background())
	if err := e.begins(ctx); err != nil {
		e.stop()
		return nil, err
	}
	e.look()
	e.reconcileSoon()
	for _, loop := range []func(context.Context){e.heartbeat, e.claim, e.reconcile, e.findStarted} {
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
func (e *Engine) register(ctx context.Context, p *Plan) error {
	var stored journal.PlanRecord
	err := e.repeat(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, max(planTimeout, e.cfg.Lease/3))
		defer cancel()
		stored, err = e.journal.Plan(ctx, p.Record)
		return err
	})
	if err != nil {
		return fmt.Errorf("saga: open: plan %s: %w", p.Name, err)
	}
	if stored.Hash != p.Record.Hash {
		return &PlanChanged{p, planChangedError(p.Record, stored)}
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
		return fmt.Errorf("saga: open: %w", err)
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
