package engine

import (
	"crypto/subtle"
	"time"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server/store"
)

// An action is what a request does next, given the record of its key.
type action uint8

const (
	actionReplay     action = iota + 1 // answer with the record's answer
	actionRefuse                       // answer with the decision's code
	actionWait                         // a live owner runs: wait or refuse with in-progress
	actionTakeOver                     // become the owner, from the record's fence
	actionQuarantine                   // move the dead owner's record to the decision's state
)

type decision struct {
	action action
	code   wire.Code
	to     store.State
}

func refuseWith(code wire.Code) decision { return decision{action: actionRefuse, code: code} }

// decide is the state machine from a request's side. It is pure: the record
// has the store's clock in it.
//
// The order matters. A tombstone is without a fingerprint, so it comes first. A mismatch comes before every other
// state: otherwise a client would poll without end for another client's call. A released key of which no run had an
// effect is bound to no request: the client may correct what was refused.
func decide(rec *store.Record, fp store.Fingerprint, maxRecoveryAttempts int) decision {
	switch {
	case rec.State == store.StateCancelled:
		return refuseWith(wire.KeyCancelled)
	case rec.State == store.StateReleased && !rec.MaybeRan:
		return decision{action: actionTakeOver}
	case rec.Fingerprint.Version != fp.Version:
		return refuseWith(wire.RecordUnreadable)
	case subtle.ConstantTimeCompare(rec.Fingerprint.Sum[:], fp.Sum[:]) == 0:
		return refuseWith(wire.KeyReused)
	}
	switch rec.State {
	case store.StateCompleted:
		if rec.Answer.Envelope == nil || !rec.Now.Before(rec.ReplayUntil) {
			return refuseWith(wire.ResponseGone)
		}
		return decision{action: actionReplay}
	case store.StateReleased:
		return decision{action: actionTakeOver}
	case store.StateUnknown:
		return refuseWith(wire.OutcomeUnknown)
	case store.StateQuarantined:
		return refuseWith(wire.Poisoned)
	case store.StateInProgress:
		return decideInProgress(rec, maxRecoveryAttempts)
	default: // written by a later version
		return refuseWith(wire.RecordUnreadable)
	}
}

func decideInProgress(rec *store.Record, maxRecoveryAttempts int) decision {
	switch {
	case rec.LeaseLeft() > 0:
		return decision{action: actionWait}
	case rec.RecoveryAttempts >= maxRecoveryAttempts: // an Opaque run too: its reconciler could let it run again
		return decision{action: actionQuarantine, to: store.StateQuarantined}
	case rec.Effect == store.Opaque: // of the run that died, whatever the route is now
		return decision{action: actionQuarantine, to: store.StateUnknown}
	default:
		return decision{action: actionTakeOver}
	}
}

// minRetryAfter keeps a client from spinning on a key that was claimed just
// now.
const minRetryAfter = 100 * time.Millisecond

// runAge is how long the run that rec shows has taken so far. No record says when
// a re-run began. It began before its lease was last set, and the record tells that
// time if its owner has the same lease as this process. After a renewal the result is
// too short by the time before the renewal, so a client asks too soon and never too late.
func runAge(rec *store.Record, lease time.Duration) time.Duration {
	age := rec.Now.Sub(rec.CreatedAt)
	if rec.Fence > 1 {
		age = min(age, max(lease-rec.LeaseLeft(), 0))
	}
	return age
}

// RetryAfter is the time that a duplicate is told to wait for a run. It is the age of the run, but no longer than
// left, the rest of its lease. So a duplicate asks often while the run is young, and seldom when it is slow. It never
// asks later than the end of a dead owner's lease.
func RetryAfter(age, left time.Duration) time.Duration {
	return max(minRetryAfter, min(age, left))
}
