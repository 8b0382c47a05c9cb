package retry

import (
	"time"
)

// An Outcome is what is known of a call's effect when the caller stops.
type Outcome uint8

const (
	// Unknown means that the call may have taken effect, or may yet. Send the same call
	// with the same key again to find out; never a new key. It is the zero
	// Outcome, and sticky: once an attempt ended so, only an answer that
	// provably comes from the callee's idempotency layer turns it.
	Unknown Outcome = iota
	// NotSent means that no attempt can have reached the callee.
	NotSent
	// Rejected means that the callee proved that the call had no effect. It can
	// speak only for attempts that this client knows of: where an earlier process
	// may have made some, say so ([Call.Resumed]), or let sdk.Begin find out.
	Rejected
	// Completed means that the effect happened; its answer may be there or not.
	Completed
)

// sure returns o, or Unknown if o is none of the constants.
func (o Outcome) sure() Outcome {
	if o > Completed {
		return Unknown
	}
	return o
}

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case NotSent:
		return "NotSent"
	case Rejected:
		return "Rejected"
	case Completed:
		return "Completed"
	default:
		return "Unknown"
	}
}

// A tally is what the attempts of one call say together. The zero tally has
// seen no attempt, and its outcome is NotSent.
type tally struct {
	maybe    bool   // an attempt, or an earlier process, may have had an effect
	rejected bool   // an attempt reached the callee and was turned down
	why      string // of the attempt that decided

	completed bool // an answer proved that it took effect
}

// add takes in the end of one more attempt. A Classify may return an Outcome that there is
// not: nobody knows what that means.
func (t *tally) add(v Verdict) {
	v.Outcome = v.Outcome.sure()
	settled := v.Outcome == Completed || v.Outcome == Rejected && v.Proven
	switch {
	case t.completed: // whatever else is seen, it has happened
	case settled:
		t.maybe, t.why = false, v.Evidence
		t.rejected, t.completed = v.Outcome == Rejected, v.Outcome == Completed
	case v.Outcome == Unknown:
		t.maybe, t.why = true, v.Evidence
	case v.Outcome == Rejected && !t.maybe:
		t.rejected, t.why = true, v.Evidence
	case !t.maybe && !t.rejected:
		t.why = v.Evidence
	}
}

// outcome returns what is known of the call as a whole.
func (t *tally) outcome() Outcome {
	switch {
	case t.completed:
		return Completed
	case t.maybe:
		return Unknown
	case t.rejected:
		return Rejected
	default:
		return NotSent
	}
}

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
	// NotRetryable says that the callee says that no retry can help, whoever makes it:
	// the call stops, whatever Action is, and its error wraps [ErrNotRetryable], which
	// belongs passed up.
	NotRetryable bool
}
