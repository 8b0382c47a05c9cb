package wire

import "strings"

// A Code names why the idempotency layer refused or could not replay a call.
// It is the code member and the end of the type member of a [Problem]; callers
// branch on it, never on the status alone.
type Code string

// The codes. The list is complete.
const (
	ScopeMissing      Code = "scope-missing"      // 401: no scope, or too long a one
	ScopeUnavailable  Code = "scope-unavailable"  // 503: the scope could not be looked up
	KeyMissing        Code = "key-missing"        // 400: this route requires a key
	KeyInvalid        Code = "key-invalid"        // 400: malformed, repeated, too long or sensitive
	FirstSentInvalid  Code = "first-sent-invalid" // 400: unparsable, or in the future
	BodyIncomplete    Code = "body-incomplete"    // 400: shorter than announced
	BodyTimeout       Code = "body-timeout"       // 408: the body did not come in time
	KeyReused         Code = "key-reused"         // 422: other payload, method or path
	InProgress        Code = "in-progress"        // 409: the first run is still going
	KeyExpired        Code = "key-expired"        // 412: first sent before the retention window; never executed
	ResponseGone      Code = "response-gone"      // 410: finished; the answer cannot be replayed
	KeyCancelled      Code = "key-cancelled"      // 410: cancelled before it ran, or undone
	OutcomeUnknown    Code = "outcome-unknown"    // 423: opaque work died; nobody knows
	LeaseLost         Code = "lease-lost"         // 409: this run's result was thrown away
	BodyTooLarge      Code = "body-too-large"     // 413: request body over the cap
	NotStorable       Code = "not-storable"       // 500: streamed or hijacked where that is refused
	RecordUnreadable  Code = "record-unreadable"  // 500: corrupt, or sealed with an unknown key
	Poisoned          Code = "poisoned"           // 423: too many dead owners
	TransactionFailed Code = "transaction-failed" // 500: the database refused a statement or the COMMIT, or a completion hook failed; rolled back
	NotClaimed        Code = "not-claimed"        // 503: the claim was never sent to the store
	StoreUnavailable  Code = "store-unavailable"  // 503: store unreachable or its fate unknown
	KeyNotFound       Code = "key-not-found"      // 404: of a look-up: nothing is stored for the key
	MethodNotAllowed  Code = "method-not-allowed" // 405: of a look-up: neither GET nor HEAD
)

// A Situation is one row of the wire contract: how a code goes over HTTP and
// gRPC, and what the caller may do about it.
type Situation struct {
	Code       Code
	Status     int    // HTTP
	GRPC       string // the gRPC code's name
	Title      string // for people; the problem's title
	Retryable  bool   // the same request with the same key can succeed later
	RetryAfter bool   // the answer carries Retry-After
}

// situations is the contract: one row per code, in the order of the checks. The status is
// a number because this package must not import net/http.
var situations = []Situation{
	{ScopeMissing, 401, "UNAUTHENTICATED", "The caller could not be identified", false, false},
	{ScopeUnavailable, 503, "UNAVAILABLE", "The caller could not be looked up", true, true},
	{KeyMissing, 400, "INVALID_ARGUMENT", "An idempotency key is required", false, false},
	{KeyInvalid, 400, "INVALID_ARGUMENT", "The idempotency key is malformed", false, false},
	{FirstSentInvalid, 400, "INVALID_ARGUMENT", "The first-sent time is malformed", false, false},
	{BodyIncomplete, 400, "INVALID_ARGUMENT", "The request body ended early", false, false},
	{BodyTimeout, 408, "UNAVAILABLE", "The request body did not come in time", true, true},
	{KeyReused, 422, "FAILED_PRECONDITION", "The key was used with another request", false, false},
	{InProgress, 409, "ABORTED", "The first run of this request is still going", true, true},
	{KeyExpired, 412, "FAILED_PRECONDITION", "The request is older than the retention window", false, false},
	{ResponseGone, 410, "FAILED_PRECONDITION", "The request finished; its answer is no longer kept", false, false},
	{KeyCancelled, 410, "FAILED_PRECONDITION", "The request was cancelled or undone", false, false},
	{OutcomeUnknown, 423, "FAILED_PRECONDITION", "It is not known whether this took effect", false, false},
	{LeaseLost, 409, "ABORTED", "This run lost its lease; its result was thrown away", true, true},
	{BodyTooLarge, 413, "RESOURCE_EXHAUSTED", "The request body is too large", false, false},
	{NotStorable, 500, "INTERNAL", "The handler's answer cannot be stored", false, false},
	{RecordUnreadable, 500, "INTERNAL", "The stored record cannot be read", false, false},
	{Poisoned, 423, "FAILED_PRECONDITION", "The key was quarantined", false, false},
	{TransactionFailed, 500, "INTERNAL", "The handler's transaction failed and was rolled back", false, false},
	{NotClaimed, 503, "UNAVAILABLE", "The key could not be claimed", true, true},
	{StoreUnavailable, 503, "UNAVAILABLE", "The idempotency store is not available", true, true},
	{KeyNotFound, 404, "NOT_FOUND", "Nothing is stored for the key", false, false},
	{MethodNotAllowed, 405, "UNIMPLEMENTED", "This address does not have this method", false, false},
}

// Situations returns the whole contract, a copy.
func Situations() []Situation { return append([]Situation(nil), situations...) }

// Situation returns the row of c; false if c is none of this package's codes.
func (c Code) Situation() (Situation, bool) {
	for _, s := range situations {
		if s.Code == c {
			return s, true
		}
	}
	return Situation{}, false
}

// ErrorDomain is the domain of the google.rpc.ErrorInfo that a refusal over gRPC carries. Its
// reason is [Code.Reason].
const ErrorDomain = "fanonce.dev"

// Reason returns c as the reason of a google.rpc.ErrorInfo, which is in upper case (AIP-193):
// "IN_PROGRESS" for in-progress.
func (c Code) Reason() string {
	return strings.ReplaceAll(strings.ToUpper(string(c)), "-", "_")
}

// CodeOfReason returns the code whose Reason that is; false if it is none of this package's.
// The caller checks that the ErrorInfo has [ErrorDomain].
func CodeOfReason(reason string) (Code, bool) {
	for _, s := range situations {
		if s.Code.Reason() == reason {
			return s.Code, true
		}
	}
	return "", false
}
