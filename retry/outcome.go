package retry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/errtext"
)

// An Outcome says what is known of a call's effect when the caller stops:
//
//	            the effect                   what to do
//	NotSent     did not happen               run the same code again
//	Rejected    did not happen               correct the request, or undo what else happened
//	Unknown     may have happened, or may    run the same code again, or undo the call
//	            yet happen
//	Completed   happened; an error says      go on
//	            that its answer is missing
//
// sdk.Resumable tells apart a Rejected that can end otherwise later.
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
	return [...]string{Unknown: "Unknown", NotSent: "NotSent", Rejected: "Rejected", Completed: "Completed"}[o.sure()]
}

// A tally joins what the attempts of one call say. The zero tally has
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

// An Action says what follows an attempt.
type Action uint8

const (
	// Stop ends the call: another attempt cannot help, or is not needed.
	Stop Action = iota
	// Retry backs off and sends the same call again.
	Retry
	// Wait asks again, with the same key, a callee that still runs the call. That
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

// A Verdict says what the end of one attempt means, whatever the attempts
// before it were. The zero Verdict is Unknown and stops.
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
	// Refused says that nobody listens, because the connection was refused. A retry takes
	// nothing from the [Budget] then.
	Refused bool
	// NotRetryable says that the callee says that no retry can help, whoever makes it:
	// the call stops, whatever Action is, and its error wraps [ErrNotRetryable], which
	// belongs passed up.
	NotRetryable bool
}

// An Error is the end of a call without a usable 2xx answer. It always says what is known
// of the effect.
type Error struct {
	Outcome  Outcome
	Evidence string // why Outcome: what was seen, for people

	Service, Operation string
	Key                childkey.Key
	Attempts           int // 0: no attempt was begun

	// Status and the fields to RetryAfter are those of the last complete answer; else zero.
	Status int
	// Code is the code of the refusal. One of package wire is the idempotency layer's, from
	// Idempotency-Code or the body. Any other code is the service's own, such as
	// "card-declined". It is read from a problem (RFC 9457), or from other JSON: from a
	// member code of the whole, of the member error or of the first of errors, or from
	// OAuth's error. It is "" for an answer without a code, and for a service's own code
	// that could be taken for one of package wire.
	Code wire.Code
	// Detail is what the same answer says for people, as its detail or message, or a text
	// that is not JSON: UTF-8 without control characters, cut to 1 KiB. It is not in the
	// error's text.
	Detail     string
	Header     http.Header   // nil if there was no answer
	Body       []byte        // its first 64 KiB; see [Error.Decode]
	RetryAfter time.Duration // what the callee asked for; 0: nothing

	// Retryable says that the same call with the same key can end better
	// later: what ran out was attempts, time or budget, or its caller retries. It is false
	// after an answer that another attempt cannot change, and after an answer that forbids it
	// (Idempotency-Should-Retry: false), which belongs passed up.
	Retryable bool

	Err error // the cause; never nil

	calls *Calls // that noted the call; nil: none
}

// The sentinels that an [Error] matches with errors.Is, by its outcome and its cause.
var (
	ErrNotSent   = errors.New("retry: not sent")
	ErrRejected  = errors.New("retry: rejected")
	ErrUnknown   = errors.New("retry: outcome unknown")
	ErrCompleted = errors.New("retry: completed without a usable answer")
)

// The sentinels for causes on the client's side.
var (
	// ErrConfig: [New] rejects a field of its configuration, or a call
	// was asked of a [Client] that New did not make.
	ErrConfig = errors.New("retry: bad config")
	// ErrInvalid: a [Call] cannot be sent as it is. It was not sent.
	ErrInvalid = errors.New("retry: invalid call")
	// ErrPayloadChanged: an attempt would have had another method, URL, key or body than
	// the call. That attempt was not sent.
	ErrPayloadChanged = errors.New("retry: payload changed between attempts")
	// ErrDeadline: the call's time is up, or would be before the next attempt.
	// It matches [context.DeadlineExceeded] too.
	ErrDeadline = fmt.Errorf("retry: no time left: %w", context.DeadlineExceeded)
	// ErrAttemptTimeout: one attempt took longer than [Config.AttemptTimeout].
	ErrAttemptTimeout = errors.New("retry: attempt timed out")
	// ErrBudgetExhausted: this client has made too many retries to the service
	// of late, and makes no more until calls succeed again. The service did not
	// say so; its last answer is in the [Error].
	ErrBudgetExhausted = errors.New("retry: this client's retry budget for the service is exhausted")
	// ErrCallerRetries: the call is not retried here, because the caller of the inbound
	// request in ctx said that it retries that request itself.
	ErrCallerRetries = errors.New("retry: not retried here, because the caller of the request retries it")
	// ErrStillInProgress: the callee was still running the call after
	// [Config.MaxPolls] questions.
	ErrStillInProgress = errors.New("retry: still in progress")
	// ErrRetryAfter: the callee asks to wait longer than [Config.RetryAfterCap].
	// The [Error] has the value.
	ErrRetryAfter = errors.New("retry: the callee asks for too long a wait")
	// ErrNotRetryable: the callee says that retrying cannot help now. It wraps
	// [wire.ErrNotRetryable], which a guarded handler that returns it passes up.
	ErrNotRetryable = fmt.Errorf("retry: %w", wire.ErrNotRetryable)
	// ErrUnmarked: a 2xx to a call with a key lacks the mark that every answer of a guarded
	// service has, so a proxy may have said it. See [Profile.MarksAnswers].
	ErrUnmarked = errors.New("retry: a 2xx that does not come from a guard " +
		"(is the service not guarded, or does a gateway remove Idempotent-Replayed? Then set Service.Profile: retry.Unguarded())")
	// ErrTruncated: an answer ended before its end.
	ErrTruncated = errors.New("retry: answer cut off")
	// ErrResponseTooLarge: an answer is longer than [Config.MaxResponseBytes].
	ErrResponseTooLarge = errors.New("retry: answer too large")
)

// The sentinels for answers of the callee's idempotency layer.
var (
	// ErrKeyReused: the callee knows the key with another payload. That is a
	// mistake in the caller, or a body that was not rebuilt byte for byte;
	// neither a retry nor a new key is the remedy.
	ErrKeyReused = errors.New("retry: the key was used with another payload")
	// ErrKeyExpired: the callee no longer knows whether the key ran. Find out
	// by reading before the call is made anew.
	ErrKeyExpired = errors.New("retry: the key is past the callee's retention")
	// ErrKeyCancelled: an undo cancelled the key before it ran, or undid it.
	ErrKeyCancelled = errors.New("retry: the key was cancelled")
)

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Decode decodes Body into v, as [contract.Decode] does, whatever the status and the media
// type of the answer. So callers read what their service says beside a code and a detail:
//
//	var declined struct {
//		Error struct {
//			DeclineCode string `json:"decline_code"`
//		}
//	}
//	err := failed.Decode(&declined)
//
// The error wraps [contract.ErrBody]: the body is empty, is not JSON, was cut or does not
// fit v.
func (e *Error) Decode(v any) error {
	if len(e.Body) == 0 {
		return fmt.Errorf("%w: the error has none", contract.ErrBody)
	}
	return contract.Decode(e.Body, v)
}

// Timeout reports whether the cause is that time ran out. [net/url.Error] asks for it.
func (e *Error) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// Is matches the sentinel of the error's outcome, and of its code.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotSent:
		return e.Outcome == NotSent
	case ErrRejected:
		return e.Outcome == Rejected
	case ErrUnknown:
		return e.Outcome == Unknown
	case ErrCompleted:
		return e.Outcome == Completed
	case ErrKeyReused:
		return e.Code == wire.KeyReused
	case ErrKeyExpired:
		return e.Code == wire.KeyExpired
	case ErrKeyCancelled:
		return e.Code == wire.KeyCancelled
	default:
		return false
	}
}

// Error names the call, the outcome, the attempts and the cause; the key only
// as its digest.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("retry: ")
	if name := strings.Trim(e.Service+"."+e.Operation, "."); name != "" {
		b.WriteString(name + ": ")
	}
	fmt.Fprintf(&b, "%s after %d attempt", e.Outcome, e.Attempts)
	if e.Attempts != 1 {
		b.WriteByte('s')
	}
	if e.Evidence != "" {
		b.WriteString(" (" + e.Evidence + ")")
	}
	if e.Err != nil {
		b.WriteString(": " + errtext.Of(e.Err))
	}
	if !e.Key.IsZero() {
		b.WriteString(", key digest " + e.Key.Digest())
	}
	return b.String()
}

// An answerError is a complete answer as the cause of an [Error].
type answerError struct {
	status int
	code   wire.Code
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("status %d", e.status)
	if name := http.StatusText(e.status); name != "" {
		text += " " + name
	}
	if e.code != "" {
		text += ", " + string(e.code)
	}
	return text
}
