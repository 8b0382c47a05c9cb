package store

import "errors"

// A Fate is the fate of the forward call that an undo names.
type Fate uint8

const (
	// Ran means that the forward call completed with a status below 400; undo it. An
	// undo that was made before does not change that.
	Ran Fate = iota + 1
	// NeverRan means that the forward call had no effect and never will have one. Its key
	// is a tombstone now, or it completed with a status of 400 or above and no earlier run
	// can have had effects. There is nothing to undo.
	NeverRan
	// MaybeRan means that some run of the forward call may have had effects: it
	// died or failed, and was not Transactional. No further run follows,
	// because the key is a tombstone now, or a later run of it completed with a
	// status of 400 or above. Undo what can be found.
	MaybeRan
)

// String returns the name of the fate.
func (f Fate) String() string {
	switch f {
	case Ran:
		return "ran"
	case NeverRan:
		return "never ran"
	case MaybeRan:
		return "maybe ran"
	default:
		return "undecided"
	}
}

// ErrForwardInProgress: the forward call is running at this moment. The undo is answered
// with 409 in-progress, whatever its handler writes.
var ErrForwardInProgress = errors.New("server: the forward call is in progress")

// FateOf returns the fate that an undo's Barrier tells. It uses the result of the store's Cancel. before is the
// forward record before the cancel. existed is false if there was no record. It returns [ErrForwardInProgress] for a
// run within its lease.
func FateOf(before Record, existed bool) (Fate, error) {
	switch {
	case !existed:
		return NeverRan, nil
	case before.State == StateInProgress && before.LeaseLeft() > 0:
		return 0, ErrForwardInProgress
	default:
		return fateOf(&before), nil
	}
}

// hasEffect reports whether a run ended with a status below 400. Others are refusals.
func (r *Record) hasEffect() bool { return r.Answer.Status > 0 && r.Answer.Status < 400 }

// fateOf decides from the forward record as it was before the cancel. It is pure.
func fateOf(before *Record) Fate {
	maybe := before.MaybeRan
	switch before.State {
	case StateCompleted:
		if before.hasEffect() {
			return Ran
		}
		// A refusal describes only its own run, and not an earlier run that failed.
	case StateCancelled:
		if before.hasEffect() { // an earlier undo found it
			return Ran
		}
	case StateReleased:
	case StateInProgress, StateQuarantined: // dead
		maybe = maybe || before.Effect != Transactional
	default: // unknown, or written by a later version
		maybe = true
	}
	if maybe {
		return MaybeRan
	}
	return NeverRan
}
