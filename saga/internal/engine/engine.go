package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/sdk"
)

// An Engine is an engine without the types of its users.
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
