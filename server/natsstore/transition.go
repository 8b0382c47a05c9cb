package natsstore

import (
	"bytes"
	"cmp"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Every move between states is written once, in this file, as a function of the entry and the clock. No move reads or
// writes the server.

// dead reports that a run's lease has ended, but the run was not settled.
func (e *entry) dead(now time.Time) bool {
	return e.State == store.StateInProgress && !now.Before(e.LeaseUntil)
}

// ownedBy reports that o owns a run that is not settled. A late owner that was not replaced still owns the key.
func (e *entry) ownedBy(o store.Owner) bool {
	return e.exists() && e.State == store.StateInProgress && e.Token == o.Token && e.Fence == o.Fence
}

func tooOld(firstSent time.Time, window time.Duration, now time.Time) bool {
	return !firstSent.IsZero() && firstSent.Before(now.Add(-window))
}

func claimed(req store.ClaimRequest, now time.Time) (e entry) {
	e.ID, e.Fingerprint, e.Parent = req.ID, req.Fingerprint, req.Parent
	e.CreatedAt, e.ExpiresAt = now, now.Add(req.Keep)
	if !req.FirstSent.IsZero() {
		e.FirstSent = req.FirstSent.UTC()
	}
	e.begin(req, now)
	return e
}

// begin makes req the owner of the next run.
func (e *entry) begin(req store.ClaimRequest, now time.Time) {
	e.State, e.Effect, e.Token, e.LeaseUntil = store.StateInProgress, req.Effect, req.Token, now.Add(req.Lease)
	e.Fence++
	e.Route, e.Memo = "", nil
	if req.Effect == store.Opaque {
		e.Route, e.Memo = req.Route, bytes.Clone(req.Memo)
	}
}

// bury counts the death of the owner, if it is dead.
func (e *entry) bury(now time.Time) {
	if e.dead(now) {
		e.RecoveryAttempts++
		e.MaybeRan = e.MaybeRan || e.Effect != store.Transactional
	}
}

// renew never shortens a lease: two renewals may arrive in either order.
func (e *entry) renew(lease time.Duration, now time.Time) (longer bool) {
	until := now.Add(lease)
	if longer = until.After(e.LeaseUntil); longer {
		e.LeaseUntil = until
	}
	return longer
}

func (e *entry) quarantine(req store.QuarantineRequest, now time.Time) {
	e.bury(now)
	e.State, e.Route = req.To, cmp.Or(req.Route, e.Route)
}

func (e *entry) settle(end store.Settlement, now time.Time) {
	e.State = end.State
	e.MaybeRan = e.MaybeRan || end.MaybeRan
	switch end.State {
	case store.StateCompleted:
		e.answer(end.Answer, end.ReplayFor, end.KeepAnswer, now)
		e.deadLetter = end.DeadLetter
	case store.StateUnknown, store.StateInProgress:
		e.LeaseUntil = now
	default:
	}
}

func (e *entry) answer(a store.Answer, replayFor, keep time.Duration, now time.Time) {
	e.Answer = store.Answer{Status: a.Status, Envelope: bytes.Clone(a.Envelope)}
	e.ref, e.parts = "", 0
	e.ReplayUntil = now.Add(replayFor)
	if keep > 0 {
		e.AnswerUntil = now.Add(keep)
	}
}

// resolvable reports that no request can move the key on, and no live owner runs it.
func (e *entry) resolvable(now time.Time) bool {
	return e.State == store.StateUnknown || e.State == store.StateQuarantined || e.dead(now)
}

func (e *entry) resolve(req store.ResolveRequest, now time.Time) {
	e.State, e.Token, e.RecoveryAttempts, e.MaybeRan = req.To, req.Token, req.RecoveryAttempts, req.MaybeRan
	e.Fence++
	switch req.To {
	case store.StateCompleted:
		e.answer(req.Answer, req.ReplayFor, req.KeepAnswer, now)
	case store.StateCancelled:
		e.keepUntil(now.Add(req.Keep))
	default:
	}
}

func (e *entry) keepUntil(t time.Time) {
	if t.After(e.ExpiresAt) {
		e.ExpiresAt = t
	}
}

// cancellable reports that req may make the key a tombstone.
func (e *entry) cancellable(req store.CancelRequest, now time.Time) bool {
	switch e.State {
	case store.StateCompleted:
		return req.Undone && e.Answer.Status < 400
	case store.StateCancelled:
		return false
	case store.StateInProgress:
		return e.dead(now)
	default:
		return true
	}
}

// cancel raises the fence, so that the dead owner finds itself fenced off. A late forward call must not run after its
// undo, so the tombstone stays as long as a new one, and as long as the completed key would have.
func (e *entry) cancel(req store.CancelRequest, now time.Time) {
	e.bury(now)
	e.State, e.Token = store.StateCancelled, req.Token
	e.Fence++
	e.keepUntil(now.Add(req.Keep))
	e.keepUntil(e.ReplayUntil)
}

// tombstone is the entry of a key that was cancelled before any claim.
func tombstone(req store.CancelRequest, now time.Time) (e entry) {
	e.ID, e.State, e.Token, e.Fence = req.ID, store.StateCancelled, req.Token, 1
	e.CreatedAt, e.ExpiresAt = now, now.Add(req.Keep)
	return e
}

// sweepAfter returns the time from which the record is not needed any more; zero means never. A dead Opaque run is the
// only trace of effects that may have happened, so it stays.
func (e *entry) sweepAfter() time.Time {
	switch e.State {
	case store.StateCompleted:
		return latest(e.ExpiresAt, e.ReplayUntil)
	case store.StateCancelled, store.StateReleased:
		return e.ExpiresAt
	case store.StateInProgress:
		if e.Effect != store.Opaque {
			return latest(e.ExpiresAt, e.LeaseUntil)
		}
	default:
	}
	return time.Time{}
}

// dropAfter returns the time from which the envelope must not be shown any more; zero means never.
func (e *entry) dropAfter() time.Time {
	if e.Answer.Envelope == nil {
		return time.Time{}
	}
	return e.AnswerUntil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// over reports that t is a time, and not in the future.
func over(t, now time.Time) bool { return !t.IsZero() && !now.Before(t) }

// shown is the record as callers get it: a copy that they may change.
func (e *entry) shown(now time.Time) store.Record {
	r := e.Record
	r.Now, r.Memo = now, bytes.Clone(e.Memo)
	r.Answer.Envelope = bytes.Clone(e.Answer.Envelope)
	if over(e.dropAfter(), now) {
		r.Answer.Envelope = nil
	}
	return r
}
