package server

import (
	"crypto/subtle"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
)

// A verdict is what a request does next, given the record of its key.
type verdict uint8

const (
	verdictReplay   verdict = iota + 1 // answer with the record's answer
	verdictRefuse                      // answer with the decision's code
	verdictWait                        // somebody alive runs: wait or refuse with in-progress
	verdictTakeOver                    // become the owner, from the record's fence
	verdictBury                        // move the dead owner's record to the decision's state
)

type decision struct {
	verdict verdict
	code    wire.Code
	bury    State
}

func refused(code wire.Code) decision { return decision{verdict: verdictRefuse, code: code} }

// decide is the state machine from a request's side. It is pure: the record
// has the store's clock in it.
//
// The order matters. A tombstone has no fingerprint to compare, so it goes
// first; a mismatch comes before everything else, or a client would poll for
// ever for a call that can never be its own.
func decide(rec *Record, fp Fingerprint, maxDeaths int) decision {
	switch {
	case rec.State == StateCancelled:
		return refused(wire.KeyCancelled)
	case rec.Fingerprint.Version != fp.Version:
		return refused(wire.RecordUnreadable)
	case subtle.ConstantTimeCompare(rec.Fingerprint.Sum[:], fp.Sum[:]) == 0:
		return refused(wire.KeyReused)
	}
	switch rec.State {
	case StateCompleted:
		if rec.Answer.Envelope == nil || !rec.Now.Before(rec.ReplayUntil) {
			return refused(wire.ResponseGone)
		}
		return decision{verdict: verdictReplay}
	case StateReleased:
		return decision{verdict: verdictTakeOver}
	case StateUnknown:
		return refused(wire.OutcomeUnknown)
	case StatePoisoned:
		return refused(wire.Poisoned)
	case StateInProgress:
		return decideInProgress(rec, maxDeaths)
	default: // written by a later version
		return refused(wire.RecordUnreadable)
	}
}

func decideInProgress(rec *Record, maxDeaths int) decision {
	switch {
	case rec.LeaseLeft() > 0:
		return decision{verdict: verdictWait}
	case rec.Deaths >= maxDeaths: // an Opaque one too: its reconciler would have it run again
		return decision{verdict: verdictBury, bury: StatePoisoned}
	case rec.Effect == Opaque: // of the run that died, whatever the route is now
		return decision{verdict: verdictBury, bury: StateUnknown}
	default:
		return decision{verdict: verdictTakeOver}
	}
}

// minRetryAfter keeps a client from spinning on a key that was claimed just
// now.
const minRetryAfter = 100 * time.Millisecond

// runAge is how long the run that rec shows has taken so far. No record says when
// a re-run began. It began before its lease was last set, and the record tells that
// time if its owner has the same lease as this process. After a renewal the result is
// too short by the time before the renewal, so a client asks too soon and never too late.
func runAge(rec *Record, lease time.Duration) time.Duration {
	age := rec.Now.Sub(rec.CreatedAt)
	if rec.Fence > 1 {
		age = min(age, max(lease-rec.LeaseLeft(), 0))
	}
	return age
}

// retryAfter is what a duplicate is told to wait for a run of the given age,
// whose lease has left to go: as long again as the run has taken so far. So it
// asks often while the run is young, seldom when it is slow, and never later
// than a dead owner's lease would end.
func retryAfter(age, left time.Duration) time.Duration {
	return max(minRetryAfter, min(age, left))
}
