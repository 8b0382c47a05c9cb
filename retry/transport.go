package retry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// NewTransport returns a transport as a [Client] makes one for itself, for clients that
// need another proxy or other TLS settings. Change it before its first use. It differs from
// [http.DefaultTransport] in four ways:
//
//   - It keeps up to 256 idle connections, all of which may lead to one service.
//   - It pings an HTTP/2 connection on which nothing arrived for 5 s, and closes the
//     connection if no answer comes within 5 s. A connection that died without a word would
//     else take every attempt.
//   - Its DialContext counts what is written to a connection. A request of HTTP/1 that fails
//     before a byte of it was written is therefore [NotSent], as on a kept connection that
//     the server has closed. With another DialContext, or with a DialTLSContext, such a
//     request is [Unknown]: net/http does not tell what it has written.
//   - Its OnProxyConnectResponse keeps the status and the Retry-After of a proxy that refuses
//     CONNECT. A refusal that no repetition changes, such as 403 or 407, ends a call at once.
func NewTransport() *http.Transport {
	const idle, silence = 256, 5 * time.Second
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           countedDial(dialer),
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          idle,
		MaxIdleConnsPerHost:   idle,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: silence},

		OnProxyConnectResponse: keepRefusal,
	}
}

// A connectError is the refusal of a proxy to connect to the service: nothing was sent to it.
type connectError struct {
	status     int
	retryAfter time.Duration
}

func (e *connectError) Error() string {
	return fmt.Sprintf("the proxy refused CONNECT: status %d %s", e.status, http.StatusText(e.status))
}

func keepRefusal(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	wait, _ := wire.RetryAfter(resp.Header, time.Now())
	return &connectError{resp.StatusCode, wait}
}

// countedDial dials connections that know whether something was written to them.
func countedDial(dialer *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: conn}, nil
	}
}

// A countedConn is a connection of a transport of ours. It knows whether something was
// written to it, below TLS, and can forbid that anything will be.
//
// It has the methods of [net.Conn], and those of a TCP connection that net/http uses. Any
// other way to write would pass the count.
type countedConn struct {
	net.Conn

	mu      sync.Mutex
	writing int    // writes that have not ended
	moved   uint64 // writes that may have sent a byte
	shared  bool   // by several requests at once: HTTP/2 without TLS
	sealed  bool   // nothing may be written any more
	closed  bool
}

// Write counts what it writes before it does.
func (c *countedConn) Write(b []byte) (int, error) {
	if closingAlert(b) {
		return c.Conn.Write(b)
	}
	if err := c.begin(b); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	c.end(n > 0 || err == nil || !countsFailed)
	return n, err
}

// countsFailed says that the operating system tells how many bytes it took of a write that
// fails. Windows does not: the bytes of a write that was cancelled, by a deadline or by
// Close, may have left.
const countsFailed = runtime.GOOS != "windows"

// Close closes the connection. A write that begins later sends nothing, on any system.
func (c *countedConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.Conn.Close()
}

// ReadFrom lets the operating system copy a file to the connection.
func (c *countedConn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.begin(nil); err != nil {
		return 0, err
	}
	n, err := io.Copy(c.Conn, r)
	c.end(true)
	return n, err
}

// CloseWrite ends what is written, as the body of an upgraded connection may.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("retry: CloseWrite: %w", errors.ErrUnsupported)
}

// preface is what a client of HTTP/2 writes first.
var preface = []byte("PRI * HTTP/2")

func (c *countedConn) begin(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.sealed:
		return errSealed
	case c.closed:
		return net.ErrClosed
	}
	if bytes.HasPrefix(b, preface) { // the first write, except for a proxy's CONNECT
		c.shared = true
	}
	c.writing++
	return nil
}

func (c *countedConn) end(moved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing--
	if moved {
		c.moved++
	}
}

// errSealed is what a transport gets that writes a request after its attempt ended.
var errSealed = fmt.Errorf("retry: the attempt ended before its request was written: %w", net.ErrClosed)

// mark returns how much was written so far; false if that is not certain.
func (c *countedConn) mark() (since uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved, c.writing == 0 && !c.shared
}

// isUnwritten reports whether nothing was written since the mark. If seal is set, it sees to
// it that then nothing will be.
func (c *countedConn) isUnwritten(since uint64, seal bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	unwritten := c.writing == 0 && c.moved == since && !c.shared
	c.sealed = c.sealed || seal && unwritten
	return unwritten
}

// countedConnOf returns the countedConn that conn writes to; nil if there is none, or if
// several requests share it.
func countedConnOf(conn net.Conn) *countedConn {
	for {
		switch c := conn.(type) {
		case *countedConn:
			return c
		case *tls.Conn:
			if c.ConnectionState().NegotiatedProtocol == "h2" {
				return nil
			}
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// closingAlert reports whether b is one TLS record with an alert, as a connection writes
// it that is closed: no byte of a request is in it.
//
// TLS 1.3 hides the type of a record. But the first record of a request is longer than an
// alert, with its method and its URL, and no other record goes before it.
func closingAlert(b []byte) bool {
	const ( // RFC 8446 section 5.1
		recordAlert, recordApplication = 21, 23 // the types of records
		recordHeader, alertLength      = 5, 2
		type13, tag13                  = 1, 16 // behind the alert: its type, and the tag of each cipher of TLS 1.3
	)
	if len(b) < recordHeader || int(b[3])<<8|int(b[4]) != len(b)-recordHeader {
		return false
	}
	return b[0] == recordAlert || b[0] == recordApplication && len(b) == recordHeader+alertLength+type13+tag13
}

// An evidence collects what the transport reports about one request of an attempt. Its
// fields are atomic because HTTP/2 may still write when RoundTrip has returned.
//
// A delivery is one connection that the request got. If the connection is one of ours
// and nothing was written to it, the delivery was none: got and written forget it.
type evidence struct {
	asked     atomic.Bool  // the transport calls httptrace hooks
	handshake atomic.Bool  // a TLS handshake failed
	got       atomic.Int32 // how often there was a connection to write to
	written   atomic.Int32 // how often the headers were written to one
	unwritten atomic.Bool  // a delivery was none

	connected func(reused bool) // hears of each connection; nil: nobody does

	mu     sync.Mutex
	conn   net.Conn // of the last delivery, if it is one of ours; nil: it proves nothing
	since  uint64   // what was written to conn before
	before int32    // written, when the delivery began
}

// trace returns ctx with hooks that collect evidence, beside those that it has.
func (e *evidence) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { e.asked.Store(true) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err != nil {
				e.handshake.Store(true)
			}
		},
		GotConn:      e.gotConn,
		WroteHeaders: func() { e.written.Add(1) },
	})
}

// gotConn begins a delivery, and settles the one before it: net/http has given that up.
func (e *evidence) gotConn(info httptrace.GotConnInfo) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settle()
	e.got.Add(1)
	if e.connected != nil {
		e.connected(info.Reused)
	}
	e.before = e.written.Load()
	if c := countedConnOf(info.Conn); c != nil {
		if since, ok := c.mark(); ok {
			e.conn, e.since = info.Conn, since
		}
	}
}

// settle takes back the last delivery if no byte of it was written, and ensures that none
// will be. e.mu is held.
func (e *evidence) settle() {
	if c := countedConnOf(e.conn); c != nil && c.isUnwritten(e.since, true) {
		e.got.Add(-1)
		e.written.Store(e.before)
		e.unwritten.Store(true)
	}
	e.conn = nil
}

// nothingSent reports whether no byte of the request can have left: the
// transport went looking for a connection and had none, or wrote nothing to any. That
// headers were not yet written proves less, since HTTP/2 writes in a goroutine of its own.
// That they were written proves nothing either: they may lie in a buffer.
func (e *evidence) nothingSent() bool { return e.asked.Load() && e.got.Load() == 0 }

// countDelivered returns how often the headers were written so far, when net/http asks for the
// body again. It forbids nothing: the transport may have asked for another reason.
func (e *evidence) countDelivered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := countedConnOf(e.conn); c != nil && c.isUnwritten(e.since, false) {
		return int(e.before)
	}
	return int(e.written.Load())
}

// deliveries returns how often the request may have reached the callee, which
// answered with resp; nil if it did not. More than one means that net/http sent
// it again by itself, as it does with a keyed POST whose reused connection broke.
//
// A delivery without a written byte does not count. Over connections that are not
// ours only HTTP/1 tells before RoundTrip returns what was written.
func (e *evidence) deliveries(resp *http.Response) int {
	if resp != nil && resp.ProtoMajor == 1 {
		return max(int(e.written.Load()), 1)
	}
	if resp == nil { // nobody waits for the request any more
		e.mu.Lock()
		e.settle()
		e.mu.Unlock()
	}
	return max(int(e.got.Load()), 1)
}
