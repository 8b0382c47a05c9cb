package saga

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanonce/fanonce/sdk"
)

// An Engine drives sagas: those that its own process starts, and those whose
// engine is gone. A process needs one. It is safe for concurrent use; make it
// with [Open] and end it with [Engine.Close].
type Engine struct {
	operator

	client *sdk.Client
	cfg    Config
	hashes []PlanHash // of the plans

	ctx     context.Context // of the engine's own loops
	stop    context.CancelFunc
	poke    chan struct{} // has the claim loop look at once
	asked   chan struct{} // has the reconcile loop look at once
	seeks   chan struct{} // has findStarted look at once
	backing chan struct{} // tells heed that a saga waits for a later try
	wakes   wakes

	running running       // calls
	closing chan struct{} // closed by Close
	loops   sync.WaitGroup
	parked  int            // sagas, when the reconcile loop looked last; its own
	work    sync.WaitGroup // drives, their calls, and hooks

	mu     sync.Mutex
	life   *life
	drives map[ID]*drive
	// parkings has the plans of which this build parked sagas.
	parkings map[PlanHash]parking
	bells    map[ID]*bell     // rung when a drive of the saga begins
	sought   map[ID]time.Time // sagas whose start has an unknown fate, and until when to look for them
	closed   bool
}

// Close ends the engine: it begins no further call, waits for those under way,
// stores how they ended, and hands its sagas to whoever claims them. Once ctx
// ends it waits no longer and returns an error: calls under way are cut off,
// and their sagas' next owner finds out what became of them. Runs that wait
// return [ErrDetached]. What is being written then ends when the journal answers, or
// is closed: close it after the engine. A second Close returns [ErrClosed].
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
		err = fmt.Errorf("saga: close: calls are cut off: %w", ended(ctx))
	}
	// No beat may follow the end of the lease, and no claim.
	e.stop()
	e.loops.Wait()
	l := e.current()
	l.lose(ErrClosed)
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.Lease/3)
	defer cancel()
	if left := e.journal.Leave(leave, l.id); left != nil {
		err = errors.Join(err, fmt.Errorf("saga: close: %w", left))
	}
	return err
}

// adopt drives the saga in r for the engine's life l, unless it does already.
// It returns nil if the engine is closed, or cannot read the plan.
func (e *Engine) adopt(l *life, r Record, from origin) *drive {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, own := e.enlist(l, &r, from)
	if own {
		e.carryOn(d)
	}
	return d
}

// enlist returns what drives the saga in r, nil if nothing does. If own is true that is
// new, and the caller's to carry. e.mu is held.
func (e *Engine) enlist(l *life, r *Record, from origin) (d *drive, own bool) {
	p := e.plans[r.Plan]
	if e.closed || p == nil {
		return nil, false
	}
	old := e.drives[r.ID]
	if old != nil {
		if old.owner.Fence >= r.Fence {
			return old, false
		}
		old.evict()
		close(old.heir)
	}
	d = newDrive(e, l, p, r, from)
	d.before = old
	e.drives[r.ID] = d
	if b := e.bells[r.ID]; b != nil {
		close(b.rung)
		delete(e.bells, r.ID)
	}
	return d, true
}

// carryOn carries d in a goroutine.
func (e *Engine) carryOn(d *drive) {
	e.work.Go(func() {
		growStack()
		e.carry(d)
	})
}

// carry runs d, and lets another goroutine do so if a step's function ended this one.
func (e *Engine) carry(d *drive) {
	returned := false
	defer func() {
		switch {
		case returned:
		case len(d.endings) > 0: // of that step
			e.carryOn(d)
			return
		default:
			d.err = &PanicError{Value: "runtime.Goexit"}
		}
		e.release(d)
		close(d.over)
	}()
	d.run()
	returned = true
}

func (e *Engine) release(d *drive) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.drives[d.owner.ID] == d {
		delete(e.drives, d.owner.ID)
	}
}

// driven returns what drives the saga in this process; nil if nothing does.
func (e *Engine) driven(id ID) *drive {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drives[id]
}

// A bell is what waits for a drive of a saga to begin.
type bell struct {
	rung    chan struct{}
	waiting int
}

// listen returns the bell of the saga: it is rung when the engine begins to drive it. The caller
// must call unlisten.
func (e *Engine) listen(id ID) *bell {
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

func (e *Engine) unlisten(id ID, b *bell) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.waiting--; b.waiting == 0 && e.bells[id] == b {
		delete(e.bells, id)
	}
}

// pauseFor waits for that long, or until the bell is rung; false if ctx ended.
func (e *Engine) pauseFor(ctx context.Context, b *bell, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b.rung:
	case <-timer.C:
	case <-e.closing:
	case <-ctx.Done():
		return false
	}
	return ctx.Err() == nil
}

// tell tells the observers of what concerns the engine.
func (e *Engine) tell(event EngineEvent) { e.observer.EngineEvent(e.ctx, event) }
