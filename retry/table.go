package retry

import (
	"net"
	"net/http"
	"syscall"

	"github.com/fanonce/fanonce/childkey/wire"
)

// This file is the table "failure seen -> what it means and what follows". It
// is data: every status, code and gRPC code has a row, and every way in which an
// attempt ends without an answer. Nothing else in the package decides by them.

// row is what one row of the tables of answers says.
func row(outcome Outcome, action Action, proven bool, evidence string) Verdict {
	return Verdict{Outcome: outcome, Action: action, Proven: proven, Evidence: evidence}
}

// CodeVerdict returns the row of a problem code; false if it is none of
// package wire's. A code decides before the status does.
//
// Only two codes speak for earlier attempts of the call too: response-gone and
// key-cancelled. The refusals that come before the claim (a missing scope, a
// malformed key) say nothing of an attempt that got further, and so keep an
// earlier Unknown.
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
	wire.KeyCancelled:      row(Rejected, Stop, true, "the key was cancelled before it ran"),
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
	wire.StoreUnavailable:  row(Unknown, Retry, false, "the callee's store is unavailable, or the fate of its commit unknown"),
}

// StatusVerdict returns the row of an HTTP status that came without a code of
// package wire, to a call without a key. [Answer.Verdict] knows whether there is a key:
// then a 409 is Unknown. It is total: what no row names goes by its hundred, and what is
// no status at all is Unknown.
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

// conflicts are the rows of a 409 to a call with a key. Services answer so while an
// earlier attempt is still running (draft-ietf-httpapi-idempotency-key-header-07 section
// 2.6), and also to refuse a call. Unless the service's profile knows which, only the
// answer to a later attempt can show it.
var conflicts = [...]Verdict{
	ConflictUnclear:    row(Unknown, Retry, false, "409 without a code: an earlier attempt is running, or the callee refused"),
	ConflictInProgress: row(Unknown, Wait, false, "409: an earlier attempt is running, by the callee's profile"),
	ConflictRefused:    row(Rejected, Stop, false, "409: refused, by the callee's profile"),
}

// released are the 4xx that a guarded handler may answer and that are not
// stored: its claim is released, and an earlier attempt still under way could
// run after it. They prove nothing about other attempts of the key.
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

// GRPCVerdict returns the row of a gRPC status code by its name, as
// "UNAVAILABLE", for an answer that came without a code of package wire (then
// [CodeVerdict] decides). It is total: an unheard-of name is Unknown and stops,
// as bare ABORTED does. Whether an UNAVAILABLE was sent at all only the
// transport can tell.
func GRPCVerdict(name string) Verdict {
	if v, ok := byGRPC[name]; ok {
		return v
	}
	return Verdict{Evidence: "an unheard-of gRPC code"}
}

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
