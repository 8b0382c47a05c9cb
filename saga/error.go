package saga

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fanonce/fanonce/retry"
)

// An Error is how a saga ended that did not complete. It is made from what is
// stored, so every process that asks gets the same.
type Error struct {
	ID     ID
	Name   string
	Status Status // Compensated, Stuck or Abandoned

	// FailedStep is the step that failed; "" if it was none: the saga's time
	// was up, or somebody cancelled it.
	FailedStep string
	// Outcome is what is known of that step's effect.
	Outcome retry.Outcome
	// Undone are the steps whose effect is undone, Pending the ones whose is
	// not, or of which nobody knows.
	Undone, Pending []string
	// StuckOn says what a stuck saga needs somebody for; nil if it is not.
	StuckOn *Failure
	// Cause is why: a [*retry.Error] rebuilt from what is stored, without key,
	// attempts, header and body, or [ErrTimeout] or [ErrCancelled].
	Cause error

	detail string // in place of the cause's text; "": that one
}

// newError returns the error of a saga that is final or stuck.
func newError(r Record) *Error {
	e := &Error{ID: r.ID, Name: r.Name, Status: r.Status, StuckOn: r.StuckOn}
	failure := r.Cause
	if failure == nil {
		failure = r.StuckOn
	}
	if failure != nil {
		e.FailedStep, e.Outcome, e.Cause = failure.Step, failure.Outcome, failure.err()
		if failure.Step != "" && failure.Detail != "" {
			e.detail = fmt.Sprintf("%v (%s)", failure.Outcome, failure.Detail)
		}
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
		if !entry.Undo && open && !undone[entry.Step] {
			e.Pending = append(e.Pending, entry.Step)
		}
	}
	return e
}

// err returns the failure as an error.
func (f *Failure) err() error {
	switch f.Reason {
	case ReasonCancel:
		return ErrCancelled
	case ReasonTimeout:
		if f.Step == "" {
			return ErrTimeout
		}
	case ReasonCorrupt:
		return fmt.Errorf("%w: %s", ErrCorrupt, f.Detail)
	case ReasonNewer:
		return fmt.Errorf("%w: %s", ErrNewer, f.Detail)
	case ReasonPanic:
		return fmt.Errorf("%w: %s", ErrPanic, f.Detail)
	case ReasonPoisoned:
		return errors.New(f.Detail)
	case ReasonStep: // as a timeout of a step
	}
	service, operation, _ := strings.Cut(f.Step, ".")
	failed := &retry.Error{
		Outcome: f.Outcome, Service: service, Operation: operation,
		Status: f.Status, Code: f.Code, Detail: f.Problem, Err: errors.New(f.Detail),
	}
	if f.Reason == ReasonTimeout {
		return fmt.Errorf("%w: %w", ErrTimeout, failed)
	}
	return failed
}

// Error names the saga by its ID, the step, and what is left.
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
		fmt.Fprintf(&b, "; stuck on %s", e.StuckOn.Step)
		if e.StuckOn.Undo {
			b.WriteString("'s undo")
		}
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Resumable reports whether the saga can still end otherwise, as sdk.Resumable asks: it is
// stuck, and somebody may move it on. A saga that is compensated or abandoned stays so.
func (e *Error) Resumable() bool { return e.Status == Stuck }

// Is matches the sentinel of the status.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrCompensated:
		return e.Status == Compensated
	case ErrStuck:
		return e.Status == Stuck
	case ErrAbandoned:
		return e.Status == Abandoned
	default:
		return false
	}
}
