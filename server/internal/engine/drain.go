package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrShutdown is the cause that [Engine.Shutdown] cancels a run with.
var ErrShutdown = errors.New("server: shutting down")

// A drain counts the calls that are running, and refuses new ones once it has begun. It must not be copied.
type drain struct {
	mu      sync.Mutex
	inside  int
	closed  bool
	closing chan struct{} // closed when draining begins
	empty   chan struct{} // closed when the last call left while draining
}

func newDrain() *drain {
	return &drain{closing: make(chan struct{}), empty: make(chan struct{})}
}

func (d *drain) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.inside++
	return true
}

func (d *drain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	if d.closed && d.inside == 0 {
		close(d.empty)
	}
}

func (d *drain) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	close(d.closing)
	if d.inside == 0 {
		close(d.empty)
	}
}

func (d *drain) isClosed() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// untilClosing returns ctx, cancelled with cause [ErrShutdown] when draining begins.
// The caller calls stop.
func (d *drain) untilClosing(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-d.closing:
			cancel(ErrShutdown)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}

// Drain refuses new calls and waiting duplicates from now on. It does not block.
func (e *Engine) Drain() { e.drain.shut() }

// waitForRest waits for what goes on after the last call has left.
func (e *Engine) waitForRest(ctx context.Context) error {
	return errors.Join(e.heartbeat.wait(ctx), e.unsettled.wait(ctx))
}

// Shutdown drains the engine and waits, as package server says of its Guard.
func (e *Engine) Shutdown(ctx context.Context) error {
	e.Drain()
	var last <-chan time.Time // the moment to cancel the runs
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(time.Until(deadline) - e.cfg.SettleTimeout)
		defer timer.Stop()
		last = timer.C
	}
	for {
		select {
		case <-e.drain.empty:
			return e.waitForRest(ctx)
		case <-last:
			e.heartbeat.cancelAll(ErrShutdown)
			last = nil
			continue
		case <-ctx.Done():
		}
		select { // both may have been ready
		case <-e.drain.empty:
			return e.waitForRest(ctx)
		default:
		}
		n := e.heartbeat.cancelAll(ErrShutdown)
		return fmt.Errorf("server: shutdown: %d runs still going: %w", n, context.Cause(ctx))
	}
}
