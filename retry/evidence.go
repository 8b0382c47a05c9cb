package retry

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// An evidence is what the transport let be seen of one request of an attempt.
// Its fields are atomic because HTTP/2 may still write when RoundTrip has
// returned.
type evidence struct {
	asked     atomic.Bool  // the transport calls httptrace hooks
	handshake atomic.Bool  // a TLS handshake failed
	got       atomic.Int32 // how often there was a connection to write to
	written   atomic.Int32 // how often the headers were written to one
	reserved  atomic.Int32 // how many repetitions by net/http were allowed
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
		GotConn:      func(httptrace.GotConnInfo) { e.got.Add(1) },
		WroteHeaders: func() { e.written.Add(1) },
	})
}

// nothingSent reports whether no byte of the request can have left: the
// transport went looking for a connection and never had one. That headers were
// not yet written proves less, since HTTP/2 writes in a goroutine of its own.
func (e *evidence) nothingSent() bool { return e.asked.Load() && e.got.Load() == 0 }

// deliveries returns how often the request may have reached the callee, which
// answered with resp; nil if it did not. More than one means that net/http sent
// it again by itself, as it does with a keyed POST whose reused connection broke.
//
// A connection that was found dead before anything was written to it does not
// count, but only HTTP/1 tells before RoundTrip returns what was written.
func (e *evidence) deliveries(resp *http.Response) int {
	if resp != nil && resp.ProtoMajor == 1 {
		return max(int(e.written.Load()), 1)
	}
	return max(int(e.got.Load()), 1)
}
