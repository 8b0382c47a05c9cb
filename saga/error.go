package saga

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga/internal/graph"
	"github.com/fanonce/fanonce/saga/journal"
)

// An Error describes the end of a saga that did not complete. It is made from the stored record,
// so every process gets the same Error.
type Error struct {
	ID     journal.ID
	Name   string
	Status journal.Status // Compensated, Stuck or Abandoned

	// FailedStep is the step that failed. It is "" if the saga's time was up, or if a person
	// cancelled the saga.
	FailedStep string
	// Outcome is what is known of that step's effect.
	Outcome retry.Outcome
	// HTTPStatus, Code, Detail and Body are those of the answer that FailedStep failed
	// with, as a [retry.Error] has them; zero if there was no answer. A body of more than
	// [journal.MaxBodyBytes] is not kept: then Body is nil, and BodyTooLong is true. See
	// [Error.Decode].
	HTTPStatus  int
	Code        wire.Code
	Detail      string
	Body        []byte
	BodyTooLong bool
	// Undone are the steps whose effect is undone. Pending are the steps whose effect is not
	// undone or is unknown. A ReadOnly step, a sleep and an [Each] itself have no effect, and are in neither.
	Undone, Pending []string
	// StuckOn is the failure that a person must resolve in a stuck saga. It is nil if the saga is
	// not stuck.
	StuckOn *journal.Failure
	// Cause is the reason: a [*retry.Error] rebuilt from the stored record, without key and
	// header, or [ErrTimeout] or [ErrCancelled]. Its Attempts are the saga's attempts of the step.
	// One of them may be several requests of the client.
	Cause error

	detail string // instead of the cause's text; "": that one
}

// newError returns the error of a saga that is final or stuck.
func newError(p *graph.Plan, r journal.Record) *Error {
	e := &Error{ID: r.ID, Name: r.Name, Status: r.Status, StuckOn: r.StuckOn}
	failure := r.Cause
	if failure == nil {
		failure = r.StuckOn
	}
	if failure != nil {
		e.FailedStep, e.Outcome, e.Cause = failure.Step, failure.Outcome, failureError(failure, attemptsOf(r, failure))
		e.HTTPStatus, e.Code, e.Detail = failure.Status, failure.Code, failure.Problem
		e.Body, e.BodyTooLong = slices.Clone(failure.Body), failure.BodyTooLong
		if failure.Step != "" && failure.Detail != "" {
			e.detail = fmt.Sprintf("%v (%s)", failure.Outcome, failure.Detail)
		}
	}
	if grown, err := p.WithShownItems(r.Entries); err == nil {
		p = grown
	}
	undone := make(map[string]bool)
	for _, entry := range r.Entries {
		if entry.Undo && !entry.Pending && entry.Outcome == retry.Completed {
			undone[entry.Step] = true
			e.Undone = append(e.Undone, entry.Step)
		}
	}
	for _, entry := range r.Entries {
		open := entry.Pending || entry.Outcome == retry.Completed || entry.Outcome == retry.Unknown
		if !entry.Undo && open && !undone[entry.Step] && p.HasEffect(entry.Step) {
			e.Pending = append(e.Pending, entry.Step)
		}
	}
	return e
}

// attemptsOf returns how often the call that failed was made. The journal counts the attempts that ended; a call
// whose time was up may have one more.
func attemptsOf(r journal.Record, f *journal.Failure) int {
	i := slices.IndexFunc(r.Entries, func(e journal.Entry) bool { return e.Step == f.Step && e.Undo == f.Undo })
	if i < 0 {
		return 0
	}
	return r.Entries[i].Attempts
}

// failureError returns a failure as an error.
func failureError(f *journal.Failure, attempts int) error {
	switch f.Reason {
	case journal.ReasonCancel:
		return ErrCancelled
	case journal.ReasonTimeout:
		if f.Step == "" {
			return ErrTimeout
		}
	case journal.ReasonCorrupt:
		return fmt.Errorf("%w: %s", journal.ErrCorrupt, f.Detail)
	case journal.ReasonNewer:
		return fmt.Errorf("%w: %s", journal.ErrNewer, f.Detail)
	case journal.ReasonRecoveryAttempts, journal.ReasonPanic:
		return errors.New(f.Detail)
	case journal.ReasonStep: // as a timeout of a step
	}
	service, operation, _ := strings.Cut(f.Step, ".")
	failed := &retry.Error{
		Outcome: f.Outcome, Service: service, Operation: operation, Attempts: attempts,
		Status: f.Status, Code: f.Code, Detail: f.Problem, Body: slices.Clone(f.Body), Err: errors.New(f.Detail),
	}
	if f.Reason == journal.ReasonTimeout {
		return fmt.Errorf("%w: %w", ErrTimeout, failed)
	}
	return failed
}

// Error names the saga by its ID, the step, and what is left. For a stuck saga it names the verbs of
// [Operator] that help.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "saga: %s %s: %s", e.Name, e.ID, e.Status)
	if e.FailedStep != "" {
		fmt.Fprintf(&b, ", %s failed", e.FailedStep)
	}
	switch {
	case e.detail != "":
		b.WriteString(": " + e.detail)
	case e.Cause != nil:
		b.WriteString(": " + e.Cause.Error())
	}
	if e.StuckOn != nil && e.StuckOn.Step != "" {
		b.WriteString("; " + e.stuckText())
	}
	return b.String()
}

// stuckText says on what the saga is stuck, and by which verbs a person moves it on. It leaves out a reason that the
// text has already.
func (e *Error) stuckText() string {
	f := e.StuckOn
	text := "stuck on " + f.Step
	if f.Undo {
		text += "'s undo"
	}
	if detail := fmt.Sprintf("%v (%s)", f.Outcome, f.Detail); f.Detail != "" && detail != e.detail {
		text += ": " + detail
	}
	return text + ": " + remedy(f)
}

// remedy names the verbs that fit a failure of a step. A refusal may be one that the service stored. Then no Retry can
// change it.
func remedy(f *journal.Failure) string {
	switch {
	case f.Undo && f.Outcome == retry.Rejected:
		return "undo it by hand, then ForceUndone; a Retry gets a stored refusal again"
	case f.Undo:
		return "Retry, or undo it by hand, then ForceUndone"
	default:
		return "Retry, or find out what it did, then ForceOK or ForceRejected"
	}
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Decode decodes Body into v, as [retry.Error.Decode] does. The error wraps
// [contract.ErrBody] if Body is nil or not JSON, if the answer's body was too long to be
// kept, or if it does not fit v.
func (e *Error) Decode(v any) error {
	if e.BodyTooLong {
		return fmt.Errorf("%w: it has more than %d bytes and was not kept", contract.ErrBody, journal.MaxBodyBytes)
	}
	return (&retry.Error{Body: e.Body}).Decode(v)
}

// Resumable reports whether the saga can still end otherwise, as sdk.Resumable asks: it is
// stuck, and somebody may move it on. A saga that is compensated or abandoned stays so.
func (e *Error) Resumable() bool { return e.Status == journal.Stuck }

// Is matches the sentinel of the status.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrCompensated:
		return e.Status == journal.Compensated
	case ErrStuck:
		return e.Status == journal.Stuck
	case ErrAbandoned:
		return e.Status == journal.Abandoned
	default:
		return false
	}
}
