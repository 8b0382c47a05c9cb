package servertest

import (
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// model is the simplest form of a store: it has neither a clock nor
// concurrency. A time is over, or it never ends.
type model map[store.ID]*modelKey

type modelKey struct {
	store.Record                 // without its times, except FirstSent
	dead, expired, replayed bool // past LeaseUntil, ExpiresAt, ReplayUntil
}

func (m *modelKey) isDead() bool { return m.State == store.StateInProgress && m.dead }

func (m *modelKey) bereave() {
	if m.isDead() {
		m.RecoveryAttempts++
		m.MaybeRan = m.MaybeRan || m.Effect != store.Transactional
	}
}

func (m model) claim(s step) (bool, error) {
	if k := m[s.id]; k != nil {
		return k.State == store.StateInProgress && k.Token == s.token, nil
	}
	if s.tooOld(s.firstSent) {
		return false, store.ErrExpired
	}
	m[s.id] = &modelKey{dead: s.lease == gone, expired: s.keep == gone, Record: store.Record{
		ID: s.id, State: store.StateInProgress, Effect: s.effect, Fingerprint: s.fingerprint, Token: s.token, Fence: 1, FirstSent: s.firstSent, Parent: s.parent,
	}}
	return true, nil
}

func (m model) takeOver(s step) (bool, error) {
	k := m[s.id]
	switch {
	case k == nil:
		return false, store.ErrNotFound
	case k.Fence != s.fence || k.State != store.StateReleased && !k.isDead():
		return false, nil
	case s.tooOld(k.FirstSent):
		return false, store.ErrExpired
	}
	if k.State == store.StateReleased && !k.MaybeRan {
		k.Fingerprint = s.fingerprint
	}
	k.bereave()
	k.State, k.Effect, k.Token, k.Fence, k.dead = store.StateInProgress, s.effect, s.token, k.Fence+1, s.lease == gone
	return true, nil
}

func (m model) quarantine(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		return false, store.ErrNotFound
	}
	if k.Fence != s.fence || !k.isDead() {
		return false, nil
	}
	k.bereave()
	k.State = s.grave
	return true, nil
}

// owns reports whether the owner still owns its key.
func (m model) owns(o store.Owner) bool {
	k := m[o.ID]
	return k != nil && k.State == store.StateInProgress && k.Token == o.Token && k.Fence == o.Fence
}

// renew extends the lease of an owner. A short lease changes nothing: either
// the present lease is longer, or both are over.
func (m model) renew(o store.Owner, lease time.Duration) {
	m[o.ID].dead = m[o.ID].dead && lease == gone
}

func (m model) settle(s step) (bool, error) {
	k := m[s.id]
	if k == nil || k.Token != s.token || k.Fence != s.fence {
		return false, store.ErrLeaseLost
	}
	if k.State == store.StateCompleted && s.end.State == store.StateCompleted {
		return true, nil
	}
	if k.State != store.StateInProgress && !(k.State == store.StateUnknown && s.end.EndsUnknown()) {
		return false, store.ErrLeaseLost
	}
	k.State, k.MaybeRan = s.end.State, k.MaybeRan || s.end.MaybeRan
	k.dead = true // an unknown key is free at once; others have no lease
	k.FailedAttempts = s.end.FailedAttempts
	if k.State == store.StateCompleted {
		k.FailedAttempts = 0
		k.Answer, k.replayed = s.end.Answer, s.end.ReplayFor == gone
	}
	return true, nil
}

// cancel reports whether there was a record.
func (m model) cancel(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		m[s.id] = &modelKey{expired: s.keep == gone, Record: store.Record{ID: s.id, State: store.StateCancelled, Token: s.token, Fence: 1}}
		return false, nil
	}
	live := k.State == store.StateInProgress && !k.dead
	completed := k.State == store.StateCompleted
	if live || k.State == store.StateCancelled || completed && !(s.undone && k.Answer.Status < 400) {
		return true, nil
	}
	k.bereave()
	k.State, k.Token, k.Fence = store.StateCancelled, s.token, k.Fence+1
	k.expired = k.expired && s.keep == gone && (!completed || k.replayed)
	return true, nil
}

func (m model) sweep() int {
	swept := 0
	for id, k := range m {
		done := k.State == store.StateCompleted && k.replayed || k.State == store.StateCancelled || k.State == store.StateReleased
		if k.expired && (done || k.isDead() && k.Effect != store.Opaque) {
			delete(m, id)
			swept++
		}
	}
	return swept
}

func (m model) resolve(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		return false, store.ErrNotFound
	}
	stuck := k.State == store.StateUnknown || k.State == store.StateQuarantined || k.isDead()
	if k.Fence != s.fence || !stuck {
		return k.Token == s.token && k.Fence == s.fence+1, nil
	}
	k.State, k.Token, k.Fence, k.RecoveryAttempts, k.MaybeRan = s.verdict, s.token, k.Fence+1, s.deaths, s.end.MaybeRan
	k.FailedAttempts = 0
	switch s.verdict {
	case store.StateCompleted:
		k.Answer, k.replayed = s.end.Answer, s.end.ReplayFor == gone
	case store.StateCancelled:
		k.expired = k.expired && s.keep == gone
	default:
	}
	return true, nil
}

func (m model) forget(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		return false, store.ErrNotFound
	}
	if k.Fence != s.fence || k.State == store.StateInProgress && !k.dead {
		return false, nil
	}
	delete(m, s.id)
	return true, nil
}

func (m model) deferral(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		return false, store.ErrNotFound
	}
	if k.Fence != s.fence || k.State != store.StateUnknown || !k.dead {
		return false, nil
	}
	k.dead = s.lease == gone
	return true, nil
}

// tooOld works because a step has only two ages and two windows.
func (s step) tooOld(firstSent time.Time) bool {
	return !firstSent.IsZero() && firstSent.Equal(s.old) && s.window < agedFor
}
