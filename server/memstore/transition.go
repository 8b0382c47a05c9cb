package memstore

import (
	"bytes"
	"cmp"
	"time"

	"github.com/fanonce/fanonce/server"
)

// Every move between states is written once, here, as a function of the record
// and the clock.

// dead reports that a run's lease is over though nobody has ended the run.
func dead(r server.Record, now time.Time) bool {
	return r.State == server.StateInProgress && !now.Before(r.LeaseUntil)
}

// owns reports that o is the owner of a run that has not ended. Its lease does
// not matter: who is late, but was not taken over, still owns the key.
func owns(r server.Record, o server.Owner) bool {
	return r.State == server.StateInProgress && r.Token == o.Token && r.Fence == o.Fence
}

// tooOld reports that a key first sent at firstSent must not run any more.
func tooOld(firstSent time.Time, window time.Duration, now time.Time) bool {
	return !firstSent.IsZero() && firstSent.Before(now.Add(-window))
}

func claimed(req server.ClaimRequest, now time.Time) server.Record {
	r := server.Record{
		ID:          req.ID,
		State:       server.StateInProgress,
		Effect:      req.Effect,
		Fingerprint: req.Fingerprint,
		Token:       req.Token,
		Fence:       1,
		CreatedAt:   now,
		LeaseUntil:  now.Add(req.Lease),
		ExpiresAt:   now.Add(req.Keep),
	}
	if !req.FirstSent.IsZero() {
		r.FirstSent = req.FirstSent.UTC()
	}
	return described(r, req)
}

// described is r with what its reconciler needs.
func described(r server.Record, req server.ClaimRequest) server.Record {
	r.Route, r.Memo = "", nil
	if req.Effect == server.Opaque {
		r.Route, r.Memo = req.Route, bytes.Clone(req.Memo)
	}
	return r
}

// bereaved is r after its owner, if it has a dead one, was found out.
func bereaved(r server.Record, now time.Time) server.Record {
	if dead(r, now) {
		r.Deaths++
		r.MaybeRan = r.MaybeRan || r.Effect != server.Transactional
	}
	return r
}

// takenOver keeps what belongs to the key and replaces what belongs to a run.
func takenOver(r server.Record, req server.ClaimRequest, now time.Time) server.Record {
	r = bereaved(r, now)
	r.State = server.StateInProgress
	r.Effect = req.Effect
	r.Token = req.Token
	r.Fence++
	r.LeaseUntil = now.Add(req.Lease)
	return described(r, req)
}

// renewed never shortens a lease: two renewals may arrive in either order.
func renewed(r server.Record, lease time.Duration, now time.Time) server.Record {
	if until := now.Add(lease); until.After(r.LeaseUntil) {
		r.LeaseUntil = until
	}
	return r
}

func buried(r server.Record, req server.BuryRequest, now time.Time) server.Record {
	r = bereaved(r, now)
	r.State = req.To
	r.Route = cmp.Or(req.Route, r.Route)
	return r
}

func settled(r server.Record, s server.Settlement, now time.Time) server.Record {
	r.State = s.State
	r.MaybeRan = r.MaybeRan || s.MaybeRan
	switch s.State {
	case server.StateCompleted:
		r = answered(r, s.Answer, s.ReplayFor, s.KeepAnswer, now)
	case server.StateUnknown, server.StateInProgress:
		r.LeaseUntil = now
	default:
	}
	return r
}

func answered(r server.Record, a server.Answer, replayFor, keep time.Duration, now time.Time) server.Record {
	r.Answer = cloneAnswer(a)
	r.ReplayUntil = now.Add(replayFor)
	if keep > 0 {
		r.AnswerUntil = now.Add(keep)
	}
	return r
}

// stale reports that r has an envelope that must not be shown any more.
func stale(r server.Record, now time.Time) bool {
	return r.Answer.Envelope != nil && !r.AnswerUntil.IsZero() && !now.Before(r.AnswerUntil)
}

// resolvable reports that no request can move r on, and nobody is at work.
func resolvable(r server.Record, now time.Time) bool {
	return r.State == server.StateUnknown || r.State == server.StatePoisoned || dead(r, now)
}

// resolved is r as somebody said that it is.
func resolved(r server.Record, req server.ResolveRequest, now time.Time) server.Record {
	r.State = req.To
	r.Token = req.Token
	r.Fence++
	r.Deaths = req.Deaths
	r.MaybeRan = req.MaybeRan
	switch req.To {
	case server.StateCompleted:
		r = answered(r, req.Answer, req.ReplayFor, req.KeepAnswer, now)
	case server.StateCancelled:
		if end := now.Add(req.Keep); end.After(r.ExpiresAt) {
			r.ExpiresAt = end
		}
	default:
	}
	return r
}

// cancellable reports that nobody has an answer, and nobody is at work.
func cancellable(r server.Record, now time.Time) bool {
	switch r.State {
	case server.StateCompleted, server.StateCancelled:
		return false
	case server.StateInProgress:
		return dead(r, now)
	default:
		return true
	}
}

// cancelled raises the fence, so that the dead owner finds itself fenced off. The
// tombstone stays as long as a new one: swept with the record that it was, it
// would let a late forward call run after its undo.
func cancelled(r server.Record, req server.CancelRequest, now time.Time) server.Record {
	r = bereaved(r, now)
	r.State = server.StateCancelled
	r.Token = req.Token
	r.Fence++
	if end := now.Add(req.Keep); end.After(r.ExpiresAt) {
		r.ExpiresAt = end
	}
	return r
}

// tombstone is the record of a key that was cancelled before any claim.
func tombstone(req server.CancelRequest, now time.Time) server.Record {
	return server.Record{
		ID:        req.ID,
		State:     server.StateCancelled,
		Token:     req.Token,
		Fence:     1,
		CreatedAt: now,
		ExpiresAt: now.Add(req.Keep),
	}
}

// sweepable reports that nobody can need r any more. A dead opaque run is the
// only trace of effects that may have happened, so it stays.
func sweepable(r server.Record, now time.Time) bool {
	if now.Before(r.ExpiresAt) {
		return false
	}
	switch r.State {
	case server.StateCompleted:
		return !now.Before(r.ReplayUntil)
	case server.StateCancelled, server.StateReleased:
		return true
	case server.StateInProgress:
		return dead(r, now) && r.Effect != server.Opaque
	default:
		return false
	}
}

// cloneAnswer keeps callers from changing what is stored, and the difference
// between an empty envelope and none.
func cloneAnswer(a server.Answer) server.Answer {
	a.Envelope = bytes.Clone(a.Envelope)
	return a
}

// shown is r as callers get it: read at now, and theirs to change.
func shown(r server.Record, now time.Time) server.Record {
	r.Now = now
	r.Answer = cloneAnswer(r.Answer)
	if stale(r, now) {
		r.Answer.Envelope = nil
	}
	r.Memo = bytes.Clone(r.Memo)
	return r
}
