package saga

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// Open returns an engine that keeps sagas in journal and makes their calls
// through client. It stores the plans of cfg.Definitions and begins the
// engine's lease. Then the engine takes over orphans in the background until
// [Engine.Close].
//
// Open blocks until the journal has done both, or ctx ends. Both operations are
// safe to repeat, and Open repeats them after errors: a service that starts while
// its database is down comes up with the database. Each error that Open repeats
// after is an [EngineJournalError]. Give ctx a deadline if the service is not to wait.
//
// Open returns an [ErrConfig] or a [*PlanChangedError] at once. It also returns
// the journal's [ErrRefused] and [ErrCorrupt] at once: to repeat does not change them.
// Once ctx has ended, the error wraps both the error of ctx and the journal's last one.
//
// Calls carry no deadline of ctx and no values of it; what they need
// to know of a saga is in [FromContext].
func Open(ctx context.Context, journal Journal, client *sdk.Client, cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	switch {
	case err != nil:
		return nil, err
	case isNil(journal):
		return nil, field("journal", errors.New("nil"))
	case client == nil:
		return nil, field("client", errors.New("nil"))
	}
	e := &Engine{
		client: client, cfg: cfg, poke: make(chan struct{}, 1), asked: make(chan struct{}, 1), seeks: make(chan struct{}, 1),
		running: running{calls: make(map[callID]*runningCall)},
		backing: make(chan struct{}, 1), closing: make(chan struct{}), drives: make(map[ID]*drive), bells: make(map[ID]*bell), sought: make(map[ID]time.Time),
		parkings: make(map[PlanHash]parking),
	}
	e.operator = operator{
		journal: journal, keep: cfg.Keep, observer: newObservers(cfg), onChange: e.changed,
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	if err := e.begins(ctx); err != nil {
		e.stop()
		return nil, err
	}
	e.look()
	e.reconcileSoon()
	e.loops.Go(func() { e.beat(e.ctx) })
	e.loops.Go(func() { e.claim(e.ctx) })
	e.loops.Go(func() { e.reconcile(e.ctx) })
	e.loops.Go(func() { e.findStarted(e.ctx) })
	e.loops.Go(func() { e.heed(e.ctx) })
	return e, nil
}

// begins takes the definitions in, stores their plans, and begins the engine's lease.
func (e *Engine) begins(ctx context.Context) error {
	plans, err := e.take(e.cfg.Definitions)
	if err != nil {
		return err
	}
	for _, p := range plans {
		if err := e.checkOperations(p); err != nil {
			return err
		}
		if err := errors.Join(p.retentionProblems(e.cfg.Backoff)...); err != nil {
			return field("Backoff", fmt.Errorf("%s version %d: %w", p.name, p.version, err))
		}
	}
	for _, p := range plans {
		if err := e.register(ctx, p); err != nil {
			return err
		}
		e.hashes = append(e.hashes, p.record.Hash)
	}
	return e.firstLife(ctx)
}

// checkOperations checks that the client has the services of the plan.
func (e *Engine) checkOperations(p *plan) error {
	for _, s := range p.steps {
		if s.address.shape == function {
			continue
		}
		if _, err := e.client.ChildKey(anyKey, s.address.service, s.address.operation); err != nil {
			return field("Definitions", fmt.Errorf("%s version %d: step %s: %w", p.name, p.version, s.name, err))
		}
	}
	return nil
}

// register stores the plan, and checks that the journal has no other one.
func (e *Engine) register(ctx context.Context, p *plan) error {
	var stored PlanRecord
	err := e.repeat(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, max(planTimeout, e.cfg.Lease/3))
		defer cancel()
		stored, err = e.journal.Plan(ctx, p.record)
		return err
	})
	if err != nil {
		return fmt.Errorf("saga: open: plan %s: %w", p.name, err)
	}
	if stored.Hash != p.record.Hash {
		return changed(p.record, stored)
	}
	return nil
}

// firstLife begins the engine's lease. A beat whose fate is unknown may have begun the
// lease, so the next attempt is for the same ID. That one extends the lease if it is there.
func (e *Engine) firstLife(ctx context.Context) error {
	id := newEngineID()
	err := e.repeat(ctx, func(ctx context.Context) (err error) {
		e.life, err = e.bornAs(ctx, id)
		if errors.Is(err, ErrLeaseLost) { // an earlier beat arrived, and its lease is over
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
		if err == nil || errors.Is(err, ErrRefused) || errors.Is(err, ErrCorrupt) {
			return err
		}
		if ctx.Err() == nil {
			e.tell(EngineEvent{Kind: EngineJournalError, Err: err})
			if pause(ctx, wait) {
				continue
			}
		}
		if errors.Is(err, ctx.Err()) {
			return err
		}
		return fmt.Errorf("%w: %w", ended(ctx), err)
	}
}
