package faultnet

import (
	"context"
	"sync"
	"time"
)

// messages are what is on the wire. A message travels on when its sender hangs
// up, and a copy may arrive after its original: the edge waits for both.
type messages struct {
	mu      sync.Mutex
	drained bool // nothing may start any more
	wait    sync.WaitGroup
	alive   context.Context // when it ends, the messages on the wire are lost
	lose    context.CancelFunc
}

func newMessages() *messages {
	alive, lose := context.WithCancel(context.Background())
	return &messages{alive: alive, lose: lose}
}

// start reports whether a message may be sent. If it may, the caller must call
// wait.Done.
func (m *messages) start() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.drained {
		m.wait.Add(1)
	}
	return !m.drained
}

// drain waits until everything has arrived; when ctx ends first, it loses the
// rest and returns ctx's error.
func (m *messages) drain(ctx context.Context) error {
	m.mu.Lock()
	wasDrained := m.drained
	m.drained = true
	m.mu.Unlock()
	if wasDrained {
		return nil
	}
	arrived := make(chan struct{})
	go func() {
		m.wait.Wait()
		close(arrived)
	}()
	defer func() { <-arrived }()
	defer m.lose()
	select {
	case <-arrived:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// context returns a context that carries ctx's values and ends with the edge
// only, and the function that frees it.
func (m *messages) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(m.alive, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// hold waits for d, or until everything is cut.
func (m *messages) hold(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.alive.Done():
	}
}
