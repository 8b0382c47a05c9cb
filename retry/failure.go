package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
)

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
