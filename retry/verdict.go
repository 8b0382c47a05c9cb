package retry

import "time"

// An Action is what follows an attempt.
type Action uint8

const (
	// Stop ends the call: another attempt cannot help, or is not needed.
	Stop Action = iota
	// Retry backs off and sends the same call again.
	Retry
	// Wait asks again, with the same key, a callee that is still at it. That
	// spends no attempt and no budget, and has its own backoff and limit.
	Wait
)

// String returns the action's name in lower case, as in logs.
func (a Action) String() string {
	switch a {
	case Retry:
		return "retry"
	case Wait:
		return "wait"
	default:
		return "stop"
	}
}

// A Verdict is what the end of one attempt means: by itself, whatever the
// attempts before it were. The zero Verdict is Unknown and stops.
type Verdict struct {
	Outcome Outcome
	Action  Action
	// Proven says that the verdict speaks for the whole call: it comes from the
	// callee's idempotency layer, which answers every attempt of this key in
	// the same way. Only a proven Rejected turns an earlier Unknown; Completed
	// always does.
	Proven bool
	// Evidence says, for people, what was seen. It holds no key and no body.
	Evidence string
	// RetryAfter is how long the callee asked to wait; 0: it did not ask.
	RetryAfter time.Duration
	// Vetoed says that the callee says that no retry can help, whoever makes it:
	// the call stops, whatever Action is, and its error wraps [ErrVetoed], which
	// belongs passed up.
	Vetoed bool
}
