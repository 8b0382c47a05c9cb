package store

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// CheckLength returns an error wrapping [ErrArgument], with the name, unless d is from 0 to [MaxRetention].
func CheckLength(name string, d time.Duration) error {
	if d < 0 || d > MaxRetention {
		return fmt.Errorf("%w: %s %v, must be 0 to %v", ErrArgument, name, d, MaxRetention)
	}
	return nil
}

// CheckLease returns an error wrapping [ErrArgument] unless d is from 1 µs to [MaxRetention].
func CheckLease(d time.Duration) error {
	if d < time.Microsecond {
		return fmt.Errorf("%w: lease %v, must be at least 1µs", ErrArgument, d)
	}
	return CheckLength("lease", d)
}

// CheckLimit returns an error wrapping [ErrArgument] unless limit is positive.
func CheckLimit(limit int) error {
	if limit <= 0 {
		return fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	return nil
}

// Check returns an error wrapping [ErrArgument] if no [Store] takes r, and nil otherwise. A Store calls it before it
// does anything.
func (r ClaimRequest) Check() error {
	y := r.FirstSent.Year()
	switch {
	case r.Effect < Transactional || r.Effect > Opaque:
		return fmt.Errorf("%w: Effect %d", ErrArgument, r.Effect)
	case !r.FirstSent.IsZero() && (y < 1 || y > 9999):
		return fmt.Errorf("%w: FirstSent in the year %d", ErrArgument, y)
	}
	return cmp.Or(CheckLength("Keep", r.Keep), CheckLength("Window", r.Window), CheckLease(r.Lease))
}

// Check is as that of [ClaimRequest].
func (r QuarantineRequest) Check() error {
	if r.To != StateUnknown && r.To != StateQuarantined {
		return fmt.Errorf("%w: cannot quarantine to State %d", ErrArgument, r.To)
	}
	return nil
}

// MaxFailedAttempts is the highest number of failed attempts that a [Store] counts.
const MaxFailedAttempts = 1_000_000

// Check is as that of [ClaimRequest].
func (s Settlement) Check() error {
	if s.FailedAttempts < 0 || s.FailedAttempts > MaxFailedAttempts {
		return fmt.Errorf("%w: FailedAttempts %d", ErrArgument, s.FailedAttempts)
	}
	switch s.State {
	case StateReleased, StateUnknown, StateInProgress:
		return nil
	case StateCompleted:
	default:
		return fmt.Errorf("%w: cannot settle to State %d", ErrArgument, s.State)
	}
	if s.Answer.Status < math.MinInt32 || s.Answer.Status > math.MaxInt32 {
		return fmt.Errorf("%w: Status %d", ErrArgument, s.Answer.Status)
	}
	return cmp.Or(CheckLength("KeepAnswer", s.KeepAnswer), CheckLength("ReplayFor", s.ReplayFor))
}

// Check is as that of [ClaimRequest].
func (r CancelRequest) Check() error { return CheckLength("Keep", r.Keep) }

// Check is as that of [ClaimRequest].
func (r ResolveRequest) Check() error {
	if r.RecoveryAttempts < 0 || r.RecoveryAttempts > math.MaxInt32 {
		return fmt.Errorf("%w: RecoveryAttempts %d", ErrArgument, r.RecoveryAttempts)
	}
	switch r.To {
	case StateReleased, StateCancelled:
		return CheckLength("Keep", r.Keep)
	case StateCompleted:
		return Settlement{State: r.To, Answer: r.Answer, ReplayFor: r.ReplayFor, KeepAnswer: r.KeepAnswer}.Check()
	default:
		return fmt.Errorf("%w: cannot resolve to State %d", ErrArgument, r.To)
	}
}

// Check returns an error wrapping [ErrArgument] if no [Reader] can answer r, and nil otherwise. A Reader calls it
// before it asks its store.
func (r BrowseRequest) Check() error {
	switch {
	case r.Limit < 1:
		return fmt.Errorf("%w: Limit %d is not positive", ErrArgument, r.Limit)
	case !r.To.IsZero() && r.From.After(r.To):
		return fmt.Errorf("%w: From %v is after To %v", ErrArgument, r.From.Format(time.RFC3339Nano), r.To.Format(time.RFC3339Nano))
	case r.Effect > Opaque:
		return fmt.Errorf("%w: Effect %d", ErrArgument, r.Effect)
	}
	return checkStates(r.States)
}

// Window returns the bounds of the records that r asks for. now is the time of the store's clock. A record is in the
// window if from <= CreatedAt < to. The zero to means that there is no later bound.
func (r BrowseRequest) Window(now time.Time) (from, to time.Time) {
	from, to = r.From, r.To
	if from.IsZero() {
		end := to
		if end.IsZero() {
			end = now
		}
		from = end.Add(-DefaultWindow)
	}
	return from, to
}

// Check returns an error wrapping [ErrArgument] if no [Reader] can answer r, and nil otherwise. A Reader calls it
// before it asks its store.
func (r AuditRequest) Check() error {
	switch {
	case r.Limit < 1:
		return fmt.Errorf("%w: Limit %d is not positive", ErrArgument, r.Limit)
	case r.Before < 0:
		return fmt.Errorf("%w: Before %d is negative", ErrArgument, r.Before)
	case len(r.Actor) > MaxActorBytes:
		return fmt.Errorf("%w: Actor has %d bytes, the most is %d", ErrArgument, len(r.Actor), MaxActorBytes)
	}
	return nil
}

// Check returns an error wrapping [ErrArgument] if no [Reader] lists what r asks for, and nil otherwise.
func (r ListRequest) Check() error {
	switch {
	case r.Limit < 1:
		return fmt.Errorf("%w: Limit %d is not positive", ErrArgument, r.Limit)
	case r.Effect > Opaque:
		return fmt.Errorf("%w: Effect %d", ErrArgument, r.Effect)
	case r.Parent != ID{} && r.DeadLetters:
		return fmt.Errorf("%w: both DeadLetters and a Parent", ErrArgument)
	case r.Parent == ID{} && !r.DeadLetters:
		decided := func(state State) bool { return !slices.Contains(undecided, state) }
		if i := slices.IndexFunc(r.States, decided); i >= 0 {
			return fmt.Errorf("%w: a list of State %d, which needs no decision: only Browse has it", ErrArgument, r.States[i])
		}
	}
	return checkStates(r.States)
}

// undecided are the states of a key that can need a decision.
var undecided = []State{StateUnknown, StateQuarantined, StateInProgress}

// Listed returns the States of the records that [Reader].List finds for r: those of r, or those that no States mean.
func (r ListRequest) Listed() []State {
	switch {
	case r.DeadLetters:
		return []State{StateCompleted}
	case len(r.States) > 0:
		return r.States
	case r.Parent != ID{}:
		return []State{StateInProgress, StateCompleted, StateReleased, StateUnknown, StateQuarantined, StateCancelled}
	}
	return slices.Clone(undecided)
}

// Matches reports whether [Reader].List answers r with rec, without the Limit. deadLetter says that rec is a
// dead letter. The clock is rec.Now.
func (r ListRequest) Matches(rec *Record, deadLetter bool) bool {
	dead := rec.Effect == Opaque && rec.LeaseLeft() <= 0
	return slices.Contains(r.Listed(), rec.State) &&
		(!r.DeadLetters || deadLetter) &&
		(r.Parent == ID{} || r.Parent == rec.Parent) &&
		(r.Effect == 0 || r.Effect == rec.Effect) &&
		(r.Route == "" || r.Route == rec.Route) &&
		(rec.State != StateInProgress || r.Parent != ID{} || dead) &&
		rec.Cursor().Compare(r.After) > 0
}

// Cursor returns the place of r in a list.
func (r *Record) Cursor() Cursor { return Cursor{CreatedAt: r.CreatedAt, ID: r.ID} }

// Compare returns a negative number if c comes before other in a list, a positive one if it comes after it, and 0 if
// they are the same place.
func (c Cursor) Compare(other Cursor) int {
	return cmp.Or(c.CreatedAt.Compare(other.CreatedAt), bytes.Compare(c.ID[:], other.ID[:]))
}

func checkStates(states []State) error {
	for _, state := range states {
		if state < StateInProgress || state > StateCancelled {
			return fmt.Errorf("%w: State %d", ErrArgument, state)
		}
	}
	return nil
}
