package retry

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// An evidence is what the transport let be seen of one request of an attempt.
// Its fields are atomic because HTTP/2 may still write when RoundTrip has
// returned.
//
// A delivery is one connection that the request got. If the connection is one of ours
// and nothing was written to it, the delivery was none: got and written forget it.
type evidence struct {
	asked     atomic.Bool  // the transport calls httptrace hooks
	handshake atomic.Bool  // a TLS handshake failed
	got       atomic.Int32 // how often there was a connection to write to
	written   atomic.Int32 // how often the headers were written to one
	reserved  atomic.Int32 // how many repetitions by net/http were allowed
	unwritten atomic.Bool  // a delivery was none

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
	e.before = e.written.Load()
	if c := counted(info.Conn); c != nil {
		if since, ok := c.mark(); ok {
			e.conn, e.since = info.Conn, since
		}
	}
}

// settle takes back the last delivery if no byte of it was written, and ensures that none
// will be. e.mu is held.
func (e *evidence) settle() {
	if c := counted(e.conn); c != nil && c.seal(e.since) {
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

// delivered returns how often the headers were written so far, when net/http asks for the
// body again. It forbids nothing: the transport may have asked for another reason.
func (e *evidence) delivered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := counted(e.conn); c != nil && c.unwritten(e.since) {
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
