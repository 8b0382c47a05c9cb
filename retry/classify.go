package retry

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// This file is the table "failure seen -> what it means and what follows". It is data:
// every status, code and gRPC code has a row, and every way in which an attempt ends
// without an answer. No other file decides by them.

// row is what one row of the tables of answers says.
func row(outcome Outcome, action Action, proven bool, evidence string) Verdict {
	return Verdict{Outcome: outcome, Action: action, Proven: proven, Evidence: evidence}
}

// CodeVerdict returns the row of a problem code; false if it is none of
// package wire's. A code decides before the status does.
//
// Only two codes speak for earlier attempts of the call too: response-gone and
// key-cancelled. A refusal before the claim, such as a missing scope or a malformed key,
// does not speak for an earlier attempt: an earlier Unknown stays.
func CodeVerdict(code wire.Code) (Verdict, bool) {
	v, ok := byCode[code]
	return v, ok
}

var byCode = map[wire.Code]Verdict{
	wire.ScopeMissing:      row(Rejected, Stop, false, "refused before the claim: no scope"),
	wire.ScopeUnavailable:  row(Rejected, Retry, false, "refused before the claim: the scope could not be looked up"),
	wire.KeyMissing:        row(Rejected, Stop, false, "refused before the claim: no key"),
	wire.KeyInvalid:        row(Rejected, Stop, false, "refused before the claim: bad key"),
	wire.FirstSentInvalid:  row(Rejected, Stop, false, "refused before the claim: bad first-sent time"),
	wire.BodyIncomplete:    row(Rejected, Retry, false, "refused before the claim: the body was cut off"),
	wire.BodyTimeout:       row(Rejected, Retry, false, "refused before the claim: the body did not come in time"),
	wire.BodyTooLarge:      row(Rejected, Stop, false, "refused before the claim: body too large"),
	wire.KeyReused:         row(Rejected, Stop, true, "the key belongs to another payload"),
	wire.KeyCancelled:      row(Rejected, Stop, true, "the key was cancelled before it ran, or undone"),
	wire.ResponseGone:      row(Completed, Stop, true, "it finished; its answer is no longer kept"),
	wire.InProgress:        row(Unknown, Wait, false, "the first run is still going"),
	wire.LeaseLost:         row(Unknown, Wait, false, "the run lost its lease to another"),
	wire.KeyExpired:        row(Unknown, Stop, false, "older than the callee's retention"),
	wire.OutcomeUnknown:    row(Unknown, Stop, false, "the callee does not know either"),
	wire.NotStorable:       row(Unknown, Stop, false, "it ran, and its answer could not be stored"),
	wire.RecordUnreadable:  row(Unknown, Stop, false, "the callee cannot read its record"),
	wire.Poisoned:          row(Unknown, Stop, false, "the key is quarantined"),
	wire.TransactionFailed: row(Unknown, Stop, false, "the callee's transaction failed"),
	wire.KeyNotFound:       row(Unknown, Stop, false, "the callee has no record of the key"),
	wire.MethodNotAllowed:  row(Rejected, Stop, false, "refused before the claim: the address is a look-up"),
	wire.NotClaimed:        row(Rejected, Retry, false, "refused before the claim: the callee never sent it to its store"),
	wire.StoreUnavailable:  row(Unknown, Retry, false, "the callee's store is unavailable, or the fate of its commit unknown"),
}

// StatusVerdict returns the row of an HTTP status that came without a code of package wire,
// to a call without a key. [Answer.Verdict] knows whether there is a key: then a 409 is
// Unknown. Every status has a verdict: without a row its hundred decides, and a number that
// is not a status is Unknown.
func StatusVerdict(status int) Verdict {
	if v, ok := byStatus[status]; ok {
		return v
	}
	switch status / 100 {
	case 2:
		return Verdict{Outcome: Completed, Evidence: "2xx"}
	case 3:
		return Verdict{Outcome: Rejected, Evidence: "redirected elsewhere"}
	case 4:
		return Verdict{Outcome: Rejected, Evidence: "refused with 4xx"}
	case 5:
		return Verdict{Outcome: Unknown, Action: Retry, Evidence: "failed with 5xx"}
	case 1:
		return Verdict{Outcome: Unknown, Evidence: "an interim answer as the last one"}
	default:
		return Verdict{Outcome: Unknown, Action: Retry, Evidence: "no HTTP status"}
	}
}

var byStatus = map[int]Verdict{
	http.StatusAccepted: row(Completed, Stop, false, "accepted, not necessarily done"),
	// Post/redirect/get: many services answer so after the work was done.
	http.StatusFound:    row(Unknown, Stop, false, "redirected, perhaps after the work was done"),
	http.StatusSeeOther: row(Unknown, Stop, false, "redirected, perhaps after the work was done"),

	http.StatusRequestTimeout:     row(Unknown, Retry, false, "408: the callee or a proxy gave up reading"),
	http.StatusConflict:           row(Rejected, Stop, false, "refused with 409"),
	http.StatusMisdirectedRequest: row(Rejected, Retry, false, "421: the wrong connection"),
	http.StatusLocked:             row(Unknown, Stop, false, "423: locked until somebody settles it"),
	http.StatusTooEarly:           row(Rejected, Retry, false, "425: too early"),
	http.StatusTooManyRequests:    row(Rejected, Retry, false, "429: turned away"),
	460:                           row(Unknown, Retry, false, "a load balancer saw its client leave"),
	499:                           row(Unknown, Retry, false, "a proxy saw its client leave"),

	http.StatusNotImplemented:                row(Rejected, Stop, false, "501: not implemented"),
	http.StatusHTTPVersionNotSupported:       row(Rejected, Stop, false, "505: HTTP version"),
	http.StatusNetworkAuthenticationRequired: row(Unknown, Stop, false, "511: the network wants a login"),
}

// unclear is the row of a 409 to a call with a key. Services answer so while an earlier
// attempt is still running (draft-ietf-httpapi-idempotency-key-header-07 section 2.6), and
// also to refuse a call. Unless [Profile.Conflict] says which, only the answer to a later
// attempt can show it.
var unclear = row(Unknown, Retry, false, "409 without a code: an earlier attempt is running, or the callee refused")

// released are the 4xx that a guarded service does not store. It releases the claim, so an
// earlier attempt that is still on its way can run after it. They prove nothing about other
// attempts of the key.
var released = map[int]bool{
	http.StatusUnauthorized:       true,
	http.StatusForbidden:          true,
	http.StatusProxyAuthRequired:  true,
	http.StatusRequestTimeout:     true,
	http.StatusMisdirectedRequest: true,
	http.StatusLocked:             true,
	http.StatusTooEarly:           true,
	http.StatusTooManyRequests:    true,
}

// verdict returns what the attempt that just ended means.
func (e *exchange) verdict() Verdict {
	if e.answer == nil {
		return verdictOf(e.failed, e.seen)
	}
	if e.answer.usable() && e.frozen.carrier.profile.Classify == nil {
		return StatusVerdict(e.answer.Status) // nothing in its headers could make it another
	}
	v := e.classify(e.answer)
	if e.answer.unmarked && e.tally.maybe && v.Action == Stop && !e.answer.success() {
		v.Action, v.Evidence = Retry, v.Evidence+", and not by the service's guard"
	}
	v.RetryAfter = max(v.RetryAfter, e.retryAfter(e.answer))
	v.NotRetryable = v.NotRetryable || e.answer.forbidsRetry()
	return v
}

// forbidsRetry reports whether the callee says that no retry can help. With other credentials,
// which whoever begins anew may have, one can.
func (a *answer) forbidsRetry() bool {
	retry, ok := wire.ParseFlag(a.Header.Values(wire.HeaderShouldRetry))
	return ok && !retry && a.Status != http.StatusUnauthorized
}

// classify finds the answer's row: by its code, else by the callee's own rules,
// else by its status.
func (e *exchange) classify(a *answer) Verdict {
	if a.success() && a.unmarked {
		return Verdict{Outcome: Unknown, Evidence: "a 2xx without the mark of a guard"}
	}
	if v, ok := CodeVerdict(a.code); ok {
		if a.code == wire.KeyReused && e.task.Resumed {
			// The other payload may be this very call, as an earlier process
			// spelled it: then it has taken effect.
			v.Proven = false
		}
		switch advised, _ := wire.ParseFlag(a.Header.Values(wire.HeaderShouldRetry)); {
		case !advised:
		case a.code == wire.OutcomeUnknown:
			v.Action, v.Evidence = Wait, "the callee is finding out"
		case a.code == wire.TransactionFailed:
			v.Action, v.Evidence = Retry, "the callee failed to record its work, and runs it again"
		}
		return v
	}
	shown := a.Answer
	if classify := e.frozen.carrier.profile.Classify; classify != nil {
		if a.success() {
			a.decoded = decode(a.Header.Get("Content-Encoding"), a.Body[:min(len(a.Body), maxSnippet)])
		}
		shown.Body = a.snippet()
		if v, ok := classify(shown); ok {
			if a.failed = a.success() && v.Outcome != Completed; a.failed {
				a.readProblem()
			}
			return v
		}
	}
	if a.tooLong() {
		return Verdict{Outcome: Completed, Evidence: "2xx, longer than the client reads"}
	}
	return shown.Verdict()
}

// Verdict is what the client makes of the answer where no [Profile.Classify] does: the row of
// its status, and what the callee says of the key. A 409 to a call with a key is what
// [Profile.Conflict] says, unless the callee says that it honoured the key.
func (a Answer) Verdict() Verdict {
	v := StatusVerdict(a.Status)
	switch {
	case !a.Keyed || a.Status != http.StatusConflict:
	case a.conflict == Verdict{}:
		v = unclear
	default:
		v = a.conflict
		v.Evidence = cmp.Or(v.Evidence, "409, by the callee's profile")
	}
	again, _ := wire.ParseFlag(a.Header.Values(wire.HeaderShouldRetry))
	switch {
	case !a.Honoured:
	case again && a.Status/100 == 4: // it is not stored, so an attempt that is on its way can run after it
		return StatusVerdict(a.Status)
	case again:
	case a.Status/100 == 3:
		// The handler ran and its answer was stored, redirect or not.
		return Verdict{Outcome: Completed, Proven: true, Evidence: "redirected after it ran"}
	case a.Status/100 == 4 && (a.Replayed || !released[a.Status]):
		return Verdict{Outcome: Rejected, Proven: true, Evidence: "the callee's stored answer"}
	case a.Status/100 == 5 && a.Replayed:
		v.Action = Stop // the same answer again, for ever
		v.Evidence = "a stored " + http.StatusText(a.Status)
	}
	return v
}

// retryAfter returns what the answer asks to wait: the problem's milliseconds,
// which are finer, else the header. 0: nothing that can be read.
func (e *exchange) retryAfter(a *answer) time.Duration {
	if a.problem != nil && a.problem.RetryAfter() > 0 {
		return a.problem.RetryAfter()
	}
	wait, _ := wire.RetryAfter(a.Header, time.Now())
	return wait
}

// GRPCVerdict returns what the end of a gRPC call means, for the classify of a [Do] over
// gRPC. code is the name of the status code, as "UNAVAILABLE". If the status carries a code
// of package wire, use [CodeVerdict] instead.
//
//   - notSent says that the transport shows that nothing was sent: grpc-go's stats handler
//     saw no OutHeader.
//   - retryInfo is the delay of a google.rpc.RetryInfo among the details; 0 if there is none.
//   - pushback is grpc-retry-pushback-ms of the trailer (gRFC A6); nil if there is none. A
//     negative one, or one that is no number, forbids retries.
//
// The rows take the status for the callee's own. One that grpc-go made is not, as RESOURCE_EXHAUSTED for an
// answer that is too long, nor is one of an interceptor: package sdkgrpc tells them apart.
//
// Every code has a verdict. An unheard-of name is Unknown and stops, as bare ABORTED does.
// RESOURCE_EXHAUSTED is worth another attempt if the callee says how long to wait.
func GRPCVerdict(code string, notSent bool, retryInfo time.Duration, pushback *time.Duration) Verdict {
	v, ok := byGRPC[code]
	if !ok {
		v = Verdict{Evidence: "an unheard-of gRPC code"}
	}
	if notSent && code == "UNAVAILABLE" {
		// The channel makes the connections, at its own pace, whatever calls do.
		v.Outcome, v.Refused, v.Evidence = NotSent, true, "unavailable before anything was sent"
	}
	v.RetryAfter = max(retryInfo, 0)
	if pushback != nil {
		v.NotRetryable = *pushback < 0
		v.RetryAfter = max(*pushback, 0)
	}
	if code == "RESOURCE_EXHAUSTED" && (retryInfo > 0 || pushback != nil) {
		v.Action = Retry
	}
	return v
}

// byGRPC are the rows of the gRPC status codes.
var byGRPC = map[string]Verdict{
	"OK":                  row(Completed, Stop, false, "OK"),
	"CANCELLED":           row(Unknown, Stop, false, "cancelled under way"),
	"UNKNOWN":             row(Unknown, Retry, false, "failed with UNKNOWN"),
	"INVALID_ARGUMENT":    row(Rejected, Stop, false, "refused with INVALID_ARGUMENT"),
	"DEADLINE_EXCEEDED":   row(Unknown, Retry, false, "the attempt's deadline ended"),
	"NOT_FOUND":           row(Rejected, Stop, false, "refused with NOT_FOUND"),
	"ALREADY_EXISTS":      row(Rejected, Stop, false, "refused with ALREADY_EXISTS"),
	"PERMISSION_DENIED":   row(Rejected, Stop, false, "refused with PERMISSION_DENIED"),
	"RESOURCE_EXHAUSTED":  row(Rejected, Stop, false, "turned away with RESOURCE_EXHAUSTED"),
	"FAILED_PRECONDITION": row(Rejected, Stop, false, "refused with FAILED_PRECONDITION"),
	"ABORTED":             row(Unknown, Stop, false, "aborted without a reason"),
	"OUT_OF_RANGE":        row(Rejected, Stop, false, "refused with OUT_OF_RANGE"),
	"UNIMPLEMENTED":       row(Rejected, Stop, false, "refused with UNIMPLEMENTED"),
	"INTERNAL":            row(Unknown, Retry, false, "failed with INTERNAL"),
	"UNAVAILABLE":         row(Unknown, Retry, false, "failed with UNAVAILABLE"),
	"DATA_LOSS":           row(Unknown, Stop, false, "failed with DATA_LOSS"),
	"UNAUTHENTICATED":     row(Rejected, Stop, false, "refused with UNAUTHENTICATED"),
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
	{"the service had asked to wait", as[*pausedError](), Retry, true},
	{"the payload changed", is(ErrPayloadChanged), Stop, true},
	{"the attempt could not be prepared", as[*prepareError](), Stop, true},
	{"the body could not be read", as[*streamError](), Stop, true},
	{"the answer was cut off", is(ErrTruncated), Retry, false},
	{"no such host", noSuchHost, Stop, true},
	{"the host name could not be looked up", as[*net.DNSError](), Retry, true},
	{"the certificate is not trusted", certificate, Stop, true},
	{"the server does not speak TLS", notTLS, Stop, true},
	{"the proxy refuses to connect", refusedByProxy, Stop, true},
	{"the proxy could not connect", as[*connectError](), Retry, true},
	{"no connection could be made", dial, Retry, true},
	{"the server refused the stream unprocessed", refusedStream, Retry, true},
	{"the server refused the TLS handshake", refusedHandshake, Stop, false},
	{"the attempt timed out", timedOut, Retry, false},
	{"the connection was reset", is(syscall.ECONNRESET), Retry, false},
	{"the connection was closed before an answer came", isClosed, Retry, false},
	// The rows before have the network's failures. Another attempt would fail of the same.
	{"the TLS handshake was refused", func(_ error, seen *evidence) bool { return seen.handshake.Load() }, Stop, false},
	{"the connection failed", func(error, *evidence) bool { return true }, Retry, false},
}

// verdictOf returns what an attempt that ended in err means.
func verdictOf(err error, seen *evidence) Verdict {
	i := slices.IndexFunc(failures, func(f failure) bool { return f.match(err, seen) }) // the last row matches everything
	f := failures[i]
	v := Verdict{Outcome: Unknown, Action: f.action, Evidence: f.evidence, Refused: isRefused(err)}
	if refused := new(connectError); errors.As(err, &refused) {
		v.RetryAfter = refused.retryAfter
	}
	// Where there was a connection, net/http may have delivered the request over
	// it before the delivery that failed so. Only a refused stream excludes
	// that: HTTP/2 repeats nothing that was processed.
	// A transport without httptrace hooks shows no connection: there a body that was read may have been sent.
	var stream *streamError
	given := errors.As(err, &stream) && stream.given
	if seen.nothingSent() || f.unsent && !given && (seen.got.Load() == 0 || refusedStream(err, seen)) {
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

// refusedByProxy reports whether a proxy refused CONNECT by a 4xx that will be the same the next time.
func refusedByProxy(err error, _ *evidence) bool {
	var refused *connectError
	return errors.As(err, &refused) && refused.status/100 == 4 && StatusVerdict(refused.status).Action == Stop
}

// refusedHandshake reports whether the server ended the handshake by an alert that will be the same the next time
// (RFC 8446 section 6.2). With TLS 1.3 the alert comes when the client's side of the handshake is over, as where the
// server wants a certificate of the client.
func refusedHandshake(err error, _ *evidence) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false
	}
	alert := reflect.ValueOf(op.Err) // crypto/tls keeps the type of alerts to itself
	return alert.Kind() == reflect.Uint8 && slices.Contains(lastingAlerts, alert.Uint())
}

// lastingAlerts are handshake_failure, those about a certificate and its authority, access_denied, protocol_version,
// insufficient_security, unrecognized_name, certificate_required and no_application_protocol.
var lastingAlerts = []uint64{40, 42, 43, 44, 45, 46, 48, 49, 70, 71, 112, 116, 120}

func dial(err error, _ *evidence) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// isRefused reports whether nobody listens where the connection was to be made. A dial that gets
// no answer is something else: it is what an overloaded service looks like.
func isRefused(err error) bool {
	const windows = syscall.Errno(10061) // WSAECONNREFUSED, which no other system has as an error of its own
	var op *net.OpError
	switch {
	case !errors.As(err, &op) || !dial(err, nil):
		return false
	case op.Net == "unix" && errors.Is(err, fs.ErrNotExist): // a listener removes its socket when it is closed
		return true
	}
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, windows)
}

func timedOut(err error, _ *evidence) bool {
	var timeout net.Error
	return errors.Is(err, ErrAttemptTimeout) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

func isClosed(err error, _ *evidence) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

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
