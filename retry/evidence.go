package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// An evidence is what the transport let be seen of one request of an attempt.
// Its fields are atomic because HTTP/2 may still write when RoundTrip has
// returned.
//
// A delivery is one connection that the request got. If the connection is one of ours
// and nothing was written to it, the delivery was none: got and written forget it.
type evidence struct {
	hooks httptrace.ClientTrace // they collect the rest

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
	e.hooks.GetConn = func(string) { e.asked.Store(true) }
	e.hooks.TLSHandshakeDone = func(_ tls.ConnectionState, err error) {
		if err != nil {
			e.handshake.Store(true)
		}
	}
	e.hooks.GotConn = e.gotConn
	e.hooks.WroteHeaders = func() { e.written.Add(1) }
	return httptrace.WithClientTrace(ctx, &e.hooks)
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

// A failure is one row of the table for attempts that ended without a complete
// answer: the first row that matches decides what follows. Whether anything was
// sent is decided by evidence; unsent says that the error itself proves that its
// delivery was not made, for transports that give no evidence.
type failure struct {
	evidence string
	match    func(err error, seen *evidence) bool
	action   Action
	unsent   bool
}

var failures = []failure{
	{"the payload changed", is(ErrPayloadChanged), Stop, true},
	{"the attempt could not be prepared", as[*prepareError](), Stop, true},
	{"the body could not be read", as[*streamError](), Stop, true},
	{"the answer was cut off", is(ErrTruncated), Retry, false},
	{"no such host", noSuchHost, Stop, true},
	{"the host name could not be looked up", as[*net.DNSError](), Retry, true},
	{"the certificate is not trusted", certificate, Stop, true},
	{"the server does not speak TLS", notTLS, Stop, true},
	{"no connection could be made", dial, Retry, true},
	{"the server refused the stream unprocessed", refusedStream, Retry, true},
	{"the attempt timed out", timedOut, Retry, false},
	{"the connection was reset", is(syscall.ECONNRESET), Retry, false},
	{"the connection was closed before an answer came", closed, Retry, false},
	{"the TLS handshake was refused", handshakeRefused, Stop, false},
	{"the connection failed", func(error, *evidence) bool { return true }, Retry, false},
}

// verdictOf returns what an attempt that ended in err means.
func verdictOf(err error, seen *evidence) Verdict {
	i := slices.IndexFunc(failures, func(f failure) bool { return f.match(err, seen) }) // the last row matches everything
	f := failures[i]
	v := Verdict{Outcome: Unknown, Action: f.action, Evidence: f.evidence}
	// Where there was a connection, net/http may have delivered the request over
	// it before the delivery that failed so. Only a refused stream excludes
	// that: HTTP/2 repeats nothing that was processed.
	if seen.nothingSent() || f.unsent && (seen.got.Load() == 0 || refusedStream(err, seen)) {
		v.Outcome = NotSent
		if seen.unwritten.Load() {
			v.Evidence += " before the request was written"
		}
	}
	return v
}

func is(target error) func(error, *evidence) bool {
	return func(err error, _ *evidence) bool { return errors.Is(err, target) }
}

func as[T error]() func(error, *evidence) bool {
	return func(err error, _ *evidence) bool { var target T; return errors.As(err, &target) }
}

func noSuchHost(err error, _ *evidence) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

func certificate(err error, seen *evidence) bool {
	return as[*tls.CertificateVerificationError]()(err, seen) || as[x509.UnknownAuthorityError]()(err, seen) ||
		as[x509.HostnameError]()(err, seen) || as[x509.CertificateInvalidError]()(err, seen)
}

func notTLS(err error, seen *evidence) bool {
	return as[tls.RecordHeaderError]()(err, seen) || errors.Is(err, http.ErrSchemeMismatch)
}

func dial(err error, _ *evidence) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

func timedOut(err error, _ *evidence) bool {
	var timeout net.Error
	return errors.Is(err, ErrAttemptTimeout) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

func closed(err error, _ *evidence) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// handshakeRefused is what the handshake failed of when it was not the network:
// the rows before have those. Another attempt would fail of the same.
func handshakeRefused(_ error, seen *evidence) bool { return seen.handshake.Load() }

// An http2Error has the fields of the HTTP/2 stream error that net/http keeps
// to itself and lets errors.As copy into any struct that has the same.
type http2Error struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (http2Error) Error() string { return "stream error" }

// codeRefusedStream: the server did nothing with the stream (RFC 9113 section 8.7).
const codeRefusedStream = 7

func refusedStream(err error, _ *evidence) bool {
	var e http2Error
	return errors.As(err, &e) && e.Code == codeRefusedStream
}
