package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrShutdown is the cause that [Guard.Shutdown] cancels a run with.
var ErrShutdown = errors.New("server: shutting down")

// A gate counts the calls inside, and can be closed. It must not be copied.
type gate struct {
	mu      sync.Mutex
	inside  int
	closed  bool
	closing chan struct{} // closed with the gate
	empty   chan struct{} // closed when the last call left a closed gate
}

func newGate() *gate {
	return &gate{closing: make(chan struct{}), empty: make(chan struct{})}
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	close(g.closing)
	if g.inside == 0 {
		close(g.empty)
	}
}

func (g *gate) isClosed() bool {
	select {
	case <-g.closing:
		return true
	default:
		return false
	}
}

// untilClosing returns ctx, cancelled with cause [ErrShutdown] when the gate closes.
// The caller calls stop.
func (g *gate) untilClosing(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-g.closing:
			cancel(ErrShutdown)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		wg.Wait()
	}
}

// Shutdown ends the guard. New requests and waiting duplicates are refused with
// store-unavailable. A claim whose run did not begin is released. [Guard.RunSweeper]
// and every [Route].Reconcile end. Shutdown blocks until every run is settled, and
// until no request, sweep or heartbeat uses the store. Then it returns nil, and the
// store may be closed.
//
// Shutdown does not wait for request bodies: a request whose body is still coming is
// refused with store-unavailable. http.Server.Shutdown does the same to the requests of
// its server.
//
// One [Config.SettleTimeout] before the deadline of ctx, Shutdown cancels the ctx of
// every run that still goes, with cause [ErrShutdown]. The handler has that time to
// return, and the run to be recorded. Its effect class decides what follows from the
// answer, as always. A nearer deadline cancels the runs at once. Without a deadline
// the runs are cancelled when ctx ends.
//
// A run that does not return in time makes Shutdown return ctx's error, with the
// number of such runs. Call it again to wait for them. A store that is closed before
// that leaves them unsettled: their leases end by themselves.
//
// With more than [Config.HandlerTimeout] + [Config.SettleTimeout] no run is
// cancelled by Shutdown. With less, only the longest runs are.
//
// Call it after http.Server.Shutdown, which lets most requests end by themselves.
// Give each a ctx of its own, or the first can use up the time of the second. It may
// be called more than once and concurrently.
func (g *Guard) Shutdown(ctx context.Context) error {
	g.gate.shut()
	g.intakes.close()         // nothing has run for them: another process reads the retry's body
	var last <-chan time.Time // the moment to cancel the runs
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(time.Until(deadline) - g.cfg.SettleTimeout)
		defer timer.Stop()
		last = timer.C
	}
	for {
		select {
		case <-g.gate.empty:
			return g.pulse.wait(ctx)
		case <-last:
			g.pulse.cancelAll(ErrShutdown)
			last = nil
			continue
		case <-ctx.Done():
		}
		select { // both may have been ready
		case <-g.gate.empty:
			return g.pulse.wait(ctx)
		default:
		}
		n := g.pulse.cancelAll(ErrShutdown)
		return fmt.Errorf("server: shutdown: %d runs still going: %w", n, context.Cause(ctx))
	}
}
