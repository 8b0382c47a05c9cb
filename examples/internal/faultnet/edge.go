package faultnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures an [Edge].
type Config struct {
	// Name tells edges apart that carry the same requests; required.
	Name string
	// Seed chooses the fates of the requests; any value, zero included.
	Seed uint64
	// Profile says how bad the edge is; zero harms nothing.
	Profile Profile
}

// An Edge is the network between one caller and one callee. It is safe for
// concurrent use. [Edge.Close] frees what it holds.
type Edge struct {
	target   atomic.Pointer[string]
	fates    fates
	counts   counter
	patience time.Duration // 0: without end
	inFlight atomic.Int64

	listener net.Listener
	server   *http.Server
	upstream *http.Transport

	accepting sync.WaitGroup
	messages  *messages
}

// Listen opens an edge on a free port of 127.0.0.1. Until [Edge.Forward] names
// a callee it answers 502. It returns an error wrapping [ErrInvalid], or the
// listener's.
func Listen(cfg Config) (*Edge, error) {
	if cfg.Name == "" {
		return nil, fmt.Errorf("%w: Name is empty", ErrInvalid)
	}
	if err := cfg.Profile.check(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faultnet: %w", err)
	}
	e := &Edge{
		fates:    fates{seed: cfg.Seed, edge: cfg.Name, profile: cfg.Profile, seen: make(map[[32]byte]uint64)},
		counts:   counter{Counts: Counts{Faults: make(map[Kind]int)}},
		patience: cfg.Profile.AnswerTimeout,
		listener: listener,
		// A new connection for each message: net/http resends a request by
		// itself when a kept connection turns out dead, uncounted.
		upstream: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		messages: newMessages(),
	}
	e.server = &http.Server{Handler: e, ReadHeaderTimeout: 10 * time.Second}
	e.accepting.Go(func() { _ = e.server.Serve(listener) }) // it returns when the server is closed, and says no more than that
	return e, nil
}

// URL returns the edge's address as the caller sees it: http://127.0.0.1:port.
func (e *Edge) URL() string { return "http://" + e.listener.Addr().String() }

// Forward makes host:port the callee, from the next message on.
func (e *Edge) Forward(addr string) { e.target.Store(&addr) }

// Counts returns a copy of the counts so far.
func (e *Edge) Counts() Counts { return e.counts.snapshot() }

// InFlight returns how many messages the callee is working on.
func (e *Edge) InFlight() int { return int(e.inFlight.Load()) }

// Close takes no more requests, lets what is on the wire arrive, late copies
// included, and waits for it. When ctx ends first it cuts the rest off and
// returns ctx's error. Counts stay readable; a second Close does nothing.
func (e *Edge) Close(ctx context.Context) error {
	err := e.messages.drain(ctx)
	// Not Shutdown: it waits seconds for connections that were never used.
	err = errors.Join(err, e.server.Close())
	e.accepting.Wait()
	e.upstream.CloseIdleConnections()
	return err
}
