package memstore

import (
	"bytes"
	"cmp"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Every move between states is written once, in this file, as a function of the
// record and the clock.

// isDead reports that a run's lease has ended, but the run was not settled.
func isDead(r store.Record, now time.Time) bool {
	return r.State == store.StateInProgress && !now.Before(r.LeaseUntil)
}

// isOwner reports that o is the owner of a run that is not settled. Its lease does
// not matter: a late owner that was not replaced still owns the key.
func isOwner(r store.Record, o store.Owner) bool {
	return r.State == store.StateInProgress && r.Token == o.Token && r.Fence == o.Fence
}

// isUnknownOf reports that o was the last owner of a record that became unknown without its word.
func isUnknownOf(r store.Record, o store.Owner) bool {
	return r.State == store.StateUnknown && r.Token == o.Token && r.Fence == o.Fence
}

// isTooOld reports that a key first sent at firstSent must not run any more.
func isTooOld(firstSent time.Time, window time.Duration, now time.Time) bool {
	return !firstSent.IsZero() && firstSent.Before(now.Add(-window))
}

func newRecord(req store.ClaimRequest, now time.Time) store.Record {
	r := store.Record{
		ID:          req.ID,
		State:       store.StateInProgress,
		Effect:      req.Effect,
		Fingerprint: req.Fingerprint,
		Parent:      req.Parent,
		Token:       req.Token,
		Fence:       1,
		CreatedAt:   now,
		LeaseUntil:  now.Add(req.Lease),
		ExpiresAt:   now.Add(req.Keep),
	}
	if !req.FirstSent.IsZero() {
		r.FirstSent = req.FirstSent.UTC()
	}
	return describe(r, req)
}

// describe returns r with the Route and Memo of the claim.
func describe(r store.Record, req store.ClaimRequest) store.Record {
	r.Route, r.Memo = req.Route, bytes.Clone(req.Memo)
	return r
}

// trimClaim returns req without a Route and a Memo that the record will not have: only the reconciler of an Opaque record needs
// them.
func (s *Store) trimClaim(req store.ClaimRequest) store.ClaimRequest {
	if req.Effect == store.Opaque {
		return req
	}
	req.Memo = nil
	if !s.keepRoutes {
		req.Route = ""
	}
	return req
}

// countDeath returns r with the death of its owner counted, if the owner is dead.
func countDeath(r store.Record, now time.Time) store.Record {
	if isDead(r, now) {
		r.RecoveryAttempts++
		r.MaybeRan = r.MaybeRan || r.Effect != store.Transactional
	}
	return r
}

// toTakenOver returns r with a new run. It keeps the fields of the key and replaces the fields of the run.
func toTakenOver(r store.Record, req store.ClaimRequest, now time.Time) store.Record {
	r = countDeath(r, now)
	if r.State == store.StateReleased && !r.MaybeRan {
		r.Fingerprint = req.Fingerprint
	}
	r.State = store.StateInProgress
	r.Effect = req.Effect
	r.Token = req.Token
	r.Fence++
	r.LeaseUntil = now.Add(req.Lease)
	return describe(r, req)
}

// extendLease returns r with a lease from now. It never shortens a lease: two renewals may arrive in either order.
func extendLease(r store.Record, lease time.Duration, now time.Time) store.Record {
	if until := now.Add(lease); until.After(r.LeaseUntil) {
		r.LeaseUntil = until
	}
	return r
}

func toQuarantined(r store.Record, req store.QuarantineRequest, now time.Time) store.Record {
	r = countDeath(r, now)
	r.State = req.To
	r.Route = cmp.Or(req.Route, r.Route)
	return r
}

func toSettled(r store.Record, s store.Settlement, now time.Time) store.Record {
	r.State = s.State
	r.MaybeRan = r.MaybeRan || s.MaybeRan
	r.FailedAttempts = s.FailedAttempts
	switch s.State {
	case store.StateCompleted:
		r.FailedAttempts = 0
		r = setAnswer(r, s.Answer, s.ReplayFor, s.KeepAnswer, now)
	case store.StateUnknown, store.StateInProgress:
		r.LeaseUntil = now
	default:
	}
	return r
}

func setAnswer(r store.Record, a store.Answer, replayFor, keep time.Duration, now time.Time) store.Record {
	r.Answer = cloneAnswer(a)
	r.ReplayUntil = now.Add(replayFor)
	if keep > 0 {
		r.AnswerUntil = now.Add(keep)
	}
	return r
}

// isStale reports that r has an envelope that must not be shown any more.
func isStale(r store.Record, now time.Time) bool {
	return r.Answer.Envelope != nil && !r.AnswerUntil.IsZero() && !now.Before(r.AnswerUntil)
}

// isResolvable reports that no request can move r on, and no live owner runs it.
func isResolvable(r store.Record, now time.Time) bool {
	return r.State == store.StateUnknown || r.State == store.StateQuarantined || isDead(r, now)
}

// toResolved returns r after a person's or reconciler's resolution.
func toResolved(r store.Record, req store.ResolveRequest, now time.Time) store.Record {
	r.State = req.To
	r.Token = req.Token
	r.Fence++
	r.RecoveryAttempts, r.FailedAttempts = req.RecoveryAttempts, 0
	r.MaybeRan = req.MaybeRan
	switch req.To {
	case store.StateCompleted:
		r = setAnswer(r, req.Answer, req.ReplayFor, req.KeepAnswer, now)
	case store.StateCancelled:
		if end := now.Add(req.Keep); end.After(r.ExpiresAt) {
			r.ExpiresAt = end
		}
	default:
	}
	return r
}

// isUndoable reports that r completed with an effect, so that it can have been undone.
func isUndoable(r store.Record) bool {
	return r.State == store.StateCompleted && r.Answer.Status < 400
}

// isCancellable reports that no caller can have an answer, and no live owner runs r.
func isCancellable(r store.Record, now time.Time) bool {
	switch r.State {
	case store.StateCompleted, store.StateCancelled:
		return false
	case store.StateInProgress:
		return isDead(r, now)
	default:
		return true
	}
}

// toCancelled returns r as a tombstone. It raises the fence, so that the dead owner finds itself fenced off.
// The tombstone stays as long as a new tombstone. If it were swept at the time
// of the old record, a late forward call could run after its undo.
func toCancelled(r store.Record, req store.CancelRequest, now time.Time) store.Record {
	r = countDeath(r, now)
	r.State = store.StateCancelled
	r.Token = req.Token
	r.Fence++
	if end := now.Add(req.Keep); end.After(r.ExpiresAt) {
		r.ExpiresAt = end
	}
	if r.ReplayUntil.After(r.ExpiresAt) { // until then a completed key is kept, too
		r.ExpiresAt = r.ReplayUntil
	}
	return r
}

// newTombstone returns the record of a key that was cancelled before any claim.
func newTombstone(req store.CancelRequest, now time.Time) store.Record {
	return store.Record{
		ID:        req.ID,
		State:     store.StateCancelled,
		Token:     req.Token,
		Fence:     1,
		CreatedAt: now,
		ExpiresAt: now.Add(req.Keep),
	}
}

// isSweepable reports that r is not needed any more. The record of a dead Opaque
// run is the only trace of effects that may have happened, so it stays.
func isSweepable(r store.Record, now time.Time) bool {
	if now.Before(r.ExpiresAt) {
		return false
	}
	switch r.State {
	case store.StateCompleted:
		return !now.Before(r.ReplayUntil)
	case store.StateCancelled, store.StateReleased:
		return true
	case store.StateInProgress:
		return isDead(r, now) && r.Effect != store.Opaque
	default:
		return false
	}
}

// cloneAnswer prevents callers from changing the stored answer. It keeps the
// difference between an empty envelope and none.
func cloneAnswer(a store.Answer) store.Answer {
	a.Envelope = bytes.Clone(a.Envelope)
	return a
}

// show returns r as callers get it: read at now, and a copy that they may change.
func show(r store.Record, now time.Time) store.Record {
	r.Now = now
	r.Answer = cloneAnswer(r.Answer)
	if isStale(r, now) {
		r.Answer.Envelope = nil
	}
	r.Memo = bytes.Clone(r.Memo)
	return r
}
