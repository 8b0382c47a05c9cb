package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A gate is a listener whose connections a test can cut.
type gate struct {
	net.Listener

	mu     sync.Mutex
	closed bool // no new connection comes in
	conns  map[*gateConn]bool
}

// listenGate is [net.Listen] with a gate, which is open.
func listenGate(network, address string) (*gate, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return &gate{Listener: l, conns: make(map[*gateConn]bool)}, nil
}

// Accept implements [net.Listener]. While the gate is closed, connections end as soon as they are accepted.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if conn := g.admit(c); conn != nil {
			return conn, nil
		}
		_ = c.Close()
	}
}

func (g *gate) admit(c net.Conn) *gateConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	conn := &gateConn{c, g}
	g.conns[conn] = true
	return conn
}

// shut cuts the connections, and lets no other in until the gate is opened.
func (g *gate) shut() {
	g.setClosed(true)
	g.cut()
}

func (g *gate) open() { g.setClosed(false) }

func (g *gate) setClosed(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
}

// cut closes the connections that there are.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		_ = c.Conn.Close()
	}
}

// A gateConn is a connection that its gate can cut.
type gateConn struct {
	net.Conn

	gate *gate
}

func (c *gateConn) Close() error {
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// A proxy stands between processes and a broker or a database.
type proxy struct {
	*gate

	address string
	mute    atomic.Bool // lose what clients send
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	g, err := listenGate("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{gate: g, address: g.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := p.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			running.Go(func() { pass(client, muted{server, &p.mute}) })
			running.Go(func() { pass(server, client) })
		}
	})
	t.Cleanup(func() {
		_ = p.Close()
		p.shut()
		running.Wait()
	})
	return p
}

// pass copies until one of the two connections ends, and then ends the other one.
func pass(from net.Conn, to io.WriteCloser) {
	_, _ = io.Copy(to, from)
	_, _ = from.Close(), to.Close()
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
