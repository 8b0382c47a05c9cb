package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy stands between ledgers and a broker.
type proxy struct {
	address string
	mute    atomic.Bool // lose what clients send

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func startProxy(t *testing.T, broker string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: listener.Addr().String(), conns: make(map[net.Conn]bool)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", broker)
			if err != nil {
				_ = client.Close()
				continue
			}
			running.Go(func() { p.pass(client, muted{server, &p.mute}) })
			running.Go(func() { p.pass(server, client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		running.Wait()
	})
	return p
}

func (p *proxy) pass(from net.Conn, to io.WriteCloser) {
	p.mu.Lock()
	p.conns[from] = true
	p.mu.Unlock()
	_, _ = io.Copy(to, from)
	_, _ = from.Close(), to.Close()
	p.mu.Lock()
	delete(p.conns, from)
	p.mu.Unlock()
}

// cut closes the connections that there are.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// muted loses what is written while it is told to.
type muted struct {
	io.WriteCloser

	mute *atomic.Bool
}

func (m muted) Write(b []byte) (int, error) {
	if m.mute.Load() {
		return len(b), nil
	}
	return m.WriteCloser.Write(b)
}
