package store

import (
	"fmt"
	"slices"
	"time"
)

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

// CheckRead returns an error wrapping [ErrArgument] if [Reader].List does not answer r, and nil otherwise.
// [OperatorStore].List answers more requests.
func (r ListRequest) CheckRead() error {
	needy := func(state State) bool { return state == StateUnknown || state == StateQuarantined }
	switch {
	case r.Limit < 1:
		return fmt.Errorf("%w: Limit %d is not positive", ErrArgument, r.Limit)
	case r.Running < 0:
		return fmt.Errorf("%w: Running %v is negative", ErrArgument, r.Running)
	case r.Effect > Opaque:
		return fmt.Errorf("%w: Effect %d", ErrArgument, r.Effect)
	case r.Parent != ID{} && r.DeadLetters:
		return fmt.Errorf("%w: both DeadLetters and a Parent", ErrArgument)
	case r.Parent != ID{} || r.DeadLetters:
		return checkStates(r.States)
	case len(r.States) == 0:
		return fmt.Errorf("%w: no States, no DeadLetters and no Parent", ErrArgument)
	}
	if i := slices.IndexFunc(r.States, func(state State) bool { return !needy(state) }); i >= 0 {
		return fmt.Errorf("%w: a list of State %d: only Browse has it", ErrArgument, r.States[i])
	}
	return nil
}

func checkStates(states []State) error {
	for _, state := range states {
		if state < StateInProgress || state > StateCancelled {
			return fmt.Errorf("%w: State %d", ErrArgument, state)
		}
	}
	return nil
}
