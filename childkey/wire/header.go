package wire

import (
	"errors"
	"strings"
)

// Request headers.
const (
	HeaderKey            = "Idempotency-Key"        // draft-ietf-httpapi-idempotency-key-header-07
	HeaderFirstSent      = "Idempotency-First-Sent" // RFC 3339, UTC; optional
	HeaderCancels        = "Idempotency-Cancels"    // on an undo: the forward key
	HeaderParent         = "Idempotency-Parent"     // the caller's record, a UUID; for people: it decides nothing
	HeaderPrefer         = "Prefer"                 // wait=N, RFC 7240 section 4.3
	HeaderRetryAttempt   = "Retry-Attempt"          // counts from 1
	HeaderRetryAllowance = "Retry-Allowance"        // 0: the caller retries, so the callee must not
	HeaderRequestTimeout = "Request-Timeout-Ms"     // relative, for this attempt
)

// Response headers.
const (
	HeaderReplayed     = "Idempotent-Replayed"      // true|false, whenever the key was honoured
	HeaderCode         = "Idempotency-Code"         // the [Code] of a refusal, whatever its body
	HeaderShouldRetry  = "Idempotency-Should-Retry" // true|false, on every non-2xx
	HeaderXShouldRetry = "X-Should-Retry"           // the same, for clients that know only this name
	HeaderRetryAfter   = "Retry-After"              // RFC 9110 section 10.2.3; only where a retry can help
	HeaderRetryAfterMs = "Retry-After-Ms"           // the same wait in milliseconds, beside Retry-After
	HeaderForward      = "Idempotent-Forward"       // on the answer to an undo, one of the three below; on an undo: ran
)

// The values of [HeaderForward]: the answer to an undo says what became of the forward
// call. A request says [ForwardRan] if the caller has the answer of the forward call. It counts
// where the callee's record of that call has been swept since.
const (
	ForwardRan      = "ran"       // and is undone
	ForwardNeverRan = "never-ran" // nor ever will: there was nothing to undo
	ForwardMaybeRan = "maybe-ran" // and never will again; what could be found is undone
)

// ParseFlag returns what the lines of [HeaderReplayed] or [HeaderShouldRetry]
// say; ok is false unless there is one line with true or false.
func ParseFlag(values []string) (flag, ok bool) {
	switch text, _ := single(values); strings.ToLower(text) {
	case "true", "?1":
		return true, true
	case "false", "?0":
		return false, true
	default:
		return false, false
	}
}

// ErrNotRetryable means that a callee asked for no retry ([HeaderShouldRetry]: false): none can
// help now. After an unknown outcome a later run can help, when a person has decided.
// The caller's errors wrap it. A callee whose handler returns such an error says
// the same to its own caller, so it reaches the hop that would retry.
var ErrNotRetryable = errors.New("the service asks for no more retries")
