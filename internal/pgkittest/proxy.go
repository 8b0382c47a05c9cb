package pgkittest

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A Proxy is a network between a pool and its server that a test makes slow or silent.
// It changes no byte and closes no connection by itself: a packet that it holds arrives
// later, as after a fault of a real network. [NewProxy] makes one. It is safe for
// concurrent use.
type Proxy struct {
	tb       testing.TB
	server   string // host:port
	url      string
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
	delay  time.Duration
	held   [2]chan struct{} // by direction; closed to release, nil where packets pass
}

// A direction is that of a packet.
type direction int

const (
	toServer direction = iota
	toClient
)

// NewProxy returns a proxy in front of the server in the connection URL databaseURL. It
// passes every packet on until the test asks for more. It ends with tb, and closes its
// connections then.
func NewProxy(tb testing.TB, databaseURL string) *Proxy {
	tb.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		tb.Fatal("pgkittest: proxy: not a URL") // its text may show the password
	}
	p := &Proxy{tb: tb, server: u.Host}
	if p.listener, err = new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0"); err != nil {
		tb.Fatalf("pgkittest: proxy: %v", err)
	}
	u.Host = p.listener.Addr().String()
	p.url = u.String()
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// URL returns the URL of the database behind the proxy.
func (p *Proxy) URL() string { return p.url }

// Delay makes each packet arrive d after it was sent, in both directions, from now on. 0
// ends that.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// HoldRequests lets no packet arrive at the server until [Proxy.Release].
func (p *Proxy) HoldRequests() { p.hold(toServer) }

// HoldAnswers lets no packet of the server arrive until [Proxy.Release]. The packets of clients
// arrive and take effect.
func (p *Proxy) HoldAnswers() { p.hold(toClient) }

// Release lets all packets pass, the held packets first.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
}

func (p *Proxy) release() {
	for d, held := range p.held {
		if held != nil {
			close(held)
		}
		p.held[d] = nil
	}
}

func (p *Proxy) hold(d direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[d] == nil {
		p.held[d] = make(chan struct{})
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close() // what it would say nobody can act on
	for _, conn := range p.conns {
		_ = conn.Close() // as above
	}
	p.release()
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil { // the end of the test
			return
		}
		p.running.Go(func() { p.connect(client) })
	}
}

// connect carries one connection until either side closes it.
func (p *Proxy) connect(client net.Conn) {
	if !p.keep(client) {
		return
	}
	server, err := new(net.Dialer).DialContext(context.WithoutCancel(p.tb.Context()), "tcp", p.server)
	if err != nil || !p.keep(server) { // the server is down, and the client must see that
		_ = client.Close() // it carries no data yet
		return
	}
	p.running.Go(func() { p.carry(server, client, toServer) })
	p.carry(client, server, toClient)
}

// keep closes the connection at the end of the test; at once if that has come.
func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close() // nobody waits for it
		return false
	}
	p.conns = append(p.conns, conn)
	return true
}

// A packet is what one read returned, and when it may arrive; its end is that of the
// connection.
type packet struct {
	bytes []byte
	due   time.Time
}

// carry moves packets in one direction, each after its delay.
func (p *Proxy) carry(to, from net.Conn, d direction) {
	packets := make(chan packet, 1024)
	p.running.Go(func() {
		defer close(packets)
		for {
			buffer := make([]byte, 64<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				packets <- packet{buffer[:n], time.Now().Add(p.delayNow())}
			}
			if err != nil {
				return
			}
		}
	})
	for next := range packets {
		time.Sleep(time.Until(next.due))
		p.awaitRelease(d)
		if _, err := to.Write(next.bytes); err != nil {
			_ = from.Close() // ends the reader
		}
	}
	p.awaitRelease(d)
	_ = to.Close() // the other side has closed
}

func (p *Proxy) delayNow() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

func (p *Proxy) awaitRelease(d direction) {
	p.mu.Lock()
	held := p.held[d]
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}
