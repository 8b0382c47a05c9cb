package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrShutdown is the cause that [Guard.Shutdown] cancels a run with when its
// own ctx ends first.
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

// Shutdown ends the guard: new requests and waiting duplicates are refused
// with store-unavailable, a claim that has not begun to run is released,
// [Guard.RunSweeper] ends, and Shutdown blocks until every run has been settled. If ctx ends first, the
// runs still going have their ctx cancelled with cause [ErrShutdown] and
// Shutdown returns ctx's error at once; they are settled by their effect
// class when they return, and calling Shutdown again waits for them.
//
// Call it after http.Server.Shutdown, which waits for the same requests, or
// beside it. It may be called more than once and concurrently.
func (g *Guard) Shutdown(ctx context.Context) error {
	g.gate.shut()
	select {
	case <-g.gate.empty:
		return nil
	case <-ctx.Done():
	}
	select { // both may have been ready
	case <-g.gate.empty:
		return nil
	default:
	}
	n := g.pulse.cancelAll(ErrShutdown)
	return fmt.Errorf("server: shutdown: %d runs still going: %w", n, context.Cause(ctx))
}
