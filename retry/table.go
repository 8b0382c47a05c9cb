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
	wire.ScopeMissing:     {Rejected, Stop, false, "refused before the claim: no scope", 0},
	wire.KeyMissing:       {Rejected, Stop, false, "refused before the claim: no key", 0},
	wire.KeyInvalid:       {Rejected, Stop, false, "refused before the claim: bad key", 0},
	wire.FirstSentInvalid: {Rejected, Stop, false, "refused before the claim: bad first-sent time", 0},
	wire.BodyIncomplete:   {Rejected, Retry, false, "refused before the claim: the body was cut off", 0},
	wire.BodyTooLarge:     {Rejected, Stop, false, "refused before the claim: body too large", 0},
	wire.KeyReused:        {Rejected, Stop, true, "the key belongs to another payload", 0},
	wire.KeyCancelled:     {Rejected, Stop, true, "the key was cancelled before it ran", 0},
	wire.ResponseGone:     {Completed, Stop, true, "it finished; its answer is no longer kept", 0},
	wire.InProgress:       {Unknown, Wait, false, "the first run is still going", 0},
	wire.LeaseLost:        {Unknown, Wait, false, "the run lost its lease to another", 0},
	wire.KeyExpired:       {Unknown, Stop, false, "older than the callee's retention", 0},
	wire.OutcomeUnknown:   {Unknown, Stop, false, "the callee does not know either", 0},
	wire.NotStorable:      {Unknown, Stop, false, "it ran, and its answer could not be stored", 0},
	wire.RecordUnreadable: {Unknown, Stop, false, "the callee cannot read its record", 0},
	wire.Poisoned:         {Unknown, Stop, false, "the key is quarantined", 0},
	wire.StoreUnavailable: {Unknown, Retry, false, "the callee's store is unavailable, or the fate of its commit unknown", 0},
}

// StatusVerdict returns the row of an HTTP status that came without a code of
// package wire. It is total: what no row names goes by its hundred, and what is
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
	http.StatusAccepted: {Completed, Stop, false, "accepted, not necessarily done", 0},
	// Post/redirect/get: many services answer so after the work was done.
	http.StatusFound:    {Unknown, Stop, false, "redirected, perhaps after the work was done", 0},
	http.StatusSeeOther: {Unknown, Stop, false, "redirected, perhaps after the work was done", 0},

	http.StatusRequestTimeout:     {Unknown, Retry, false, "408: the callee or a proxy gave up reading", 0},
	http.StatusConflict:           {Rejected, Stop, false, "a conflict that is not an in-progress answer", 0},
	http.StatusMisdirectedRequest: {Rejected, Retry, false, "421: the wrong connection", 0},
	http.StatusTooEarly:           {Rejected, Retry, false, "425: too early", 0},
	http.StatusTooManyRequests:    {Rejected, Retry, false, "429: turned away", 0},
	460:                           {Unknown, Retry, false, "a load balancer saw its client leave", 0},
	499:                           {Unknown, Retry, false, "a proxy saw its client leave", 0},

	http.StatusNotImplemented:                {Rejected, Stop, false, "501: not implemented", 0},
	http.StatusHTTPVersionNotSupported:       {Rejected, Stop, false, "505: HTTP version", 0},
	http.StatusNetworkAuthenticationRequired: {Unknown, Stop, false, "511: the network wants a login", 0},
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
	"OK":                  {Completed, Stop, false, "OK", 0},
	"CANCELLED":           {Unknown, Stop, false, "cancelled under way", 0},
	"UNKNOWN":             {Unknown, Retry, false, "failed with UNKNOWN", 0},
	"INVALID_ARGUMENT":    {Rejected, Stop, false, "refused with INVALID_ARGUMENT", 0},
	"DEADLINE_EXCEEDED":   {Unknown, Retry, false, "the attempt's deadline ended", 0},
	"NOT_FOUND":           {Rejected, Stop, false, "refused with NOT_FOUND", 0},
	"ALREADY_EXISTS":      {Rejected, Stop, false, "refused with ALREADY_EXISTS", 0},
	"PERMISSION_DENIED":   {Rejected, Stop, false, "refused with PERMISSION_DENIED", 0},
	"RESOURCE_EXHAUSTED":  {Rejected, Stop, false, "turned away with RESOURCE_EXHAUSTED", 0},
	"FAILED_PRECONDITION": {Rejected, Stop, false, "refused with FAILED_PRECONDITION", 0},
	"ABORTED":             {Unknown, Stop, false, "aborted without a reason", 0},
	"OUT_OF_RANGE":        {Rejected, Stop, false, "refused with OUT_OF_RANGE", 0},
	"UNIMPLEMENTED":       {Rejected, Stop, false, "refused with UNIMPLEMENTED", 0},
	"INTERNAL":            {Unknown, Retry, false, "failed with INTERNAL", 0},
	"UNAVAILABLE":         {Unknown, Retry, false, "failed with UNAVAILABLE", 0},
	"DATA_LOSS":           {Unknown, Stop, false, "failed with DATA_LOSS", 0},
	"UNAUTHENTICATED":     {Rejected, Stop, false, "refused with UNAUTHENTICATED", 0},
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
