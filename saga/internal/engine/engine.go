package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// A core is an engine without the types of its users. openCore makes it.

type Engine struct {
	Operator

	cfg    Config
	hashes []journal.PlanHash // of the plans

	ctx   context.Context // of the engine's own loops
	stop  context.CancelFunc
	poke  chan struct{} // has the claim loop look at once
	asked chan struct{} // has the reconcile loop look at once
	seeks chan struct{} // has findStarted look at once
	wakes wakes

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
		err = fmt.Errorf("saga: close: calls are cut off: %w", Ended(ctx))
	}
	// No heartbeat may follow the end of the lease, and no claim.
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

// adopt executes the saga in r under the lease l, unless it does already.
// It returns nil if the engine is closed, or cannot read the plan. The journal was asked for r
// at the time asked.
func (e *Engine) adopt(l *lease, r journal.Record, from origin, asked time.Time) *execution {
	e.mu.Lock()
	defer e.mu.Unlock()
	d, own := e.enlist(l, &r, from, asked)
	if own {
		e.carryOn(d)
	}
	return d
}

// enlist returns what executes the saga in r, nil if nothing does. If own is true that is
// new, and the caller's to carry. e.mu is held.
func (e *Engine) enlist(l *lease, r *journal.Record, from origin, asked time.Time) (d *execution, own bool) {
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
	d = newExecution(e, l, p, r, from, asked)
	e.executions[r.ID] = d
	if b := e.bells[r.ID]; b != nil {
		close(b.rung)
		delete(e.bells, r.ID)
	}
	return d, true
}

// carryOn carries d in a goroutine.
func (e *Engine) carryOn(d *execution) {
	e.work.Go(func() {
		growStack()
		e.carry(d)
	})
}

// carry runs d, and lets another goroutine do so if a step's function ended this one.
func (e *Engine) carry(d *execution) {
	returned := false
	defer func() {
		switch {
		case returned:
		case len(d.endings) > 0: // of that step
			e.carryOn(d)
			return
		default:
			d.err = &sdk.PanicError{Value: "runtime.Goexit"}
		}
		d.untraced()
		e.release(d)
		close(d.over)
	}()
	d.traced()
	d.run()
	returned = true
}

func (e *Engine) release(d *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.executions[d.owner.ID] == d {
		delete(e.executions, d.owner.ID)
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
// must call unlisten.
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

func (e *Engine) unlisten(id journal.ID, b *bell) {
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

// growStack gives a new goroutine the stack that a call will need. This is 16 KB, because the
// hash of a key, deep in package sdk, does not fit into the rest of 8 KB. Without growStack the
// stack doubles when it is full, twice or more. Each time all its frames are copied and
// corrected. BenchmarkRun spent a fifth of its processor time on that.
//
//go:noinline
func growStack() {
	var frame [12 << 10]byte
	runtime.KeepAlive(&frame)
}
