package servertest

import (
	"time"

	"github.com/fanonce/fanonce/server"
)

// model is what a store is in its shortest form: no clock, no concurrency. A
// time is over, or it never ends.
type model map[server.ID]*modelKey

type modelKey struct {
	server.Record                // but for its times, FirstSent aside
	dead, expired, replayed bool // past LeaseUntil, ExpiresAt, ReplayUntil
}

func (k *modelKey) isDead() bool { return k.State == server.StateInProgress && k.dead }

func (k *modelKey) bereave() {
	if k.isDead() {
		k.Deaths++
		k.MaybeRan = k.MaybeRan || k.Effect != server.Transactional
	}
}

func (m model) claim(s step) (bool, error) {
	if k := m[s.id]; k != nil {
		return k.State == server.StateInProgress && k.Token == s.token, nil
	}
	if s.tooOld(s.firstSent) {
		return false, server.ErrExpired
	}
	m[s.id] = &modelKey{dead: s.lease == gone, expired: s.keep == gone, Record: server.Record{
		ID: s.id, State: server.StateInProgress, Effect: s.effect, Fingerprint: s.fingerprint, Token: s.token, Fence: 1, FirstSent: s.firstSent,
	}}
	return true, nil
}

func (m model) takeOver(s step) (bool, error) {
	k := m[s.id]
	switch {
	case k == nil:
		return false, server.ErrNotFound
	case k.Fence != s.fence || k.State != server.StateReleased && !k.isDead():
		return false, nil
	case s.tooOld(k.FirstSent):
		return false, server.ErrExpired
	}
	k.bereave()
	k.State, k.Effect, k.Token, k.Fence, k.dead = server.StateInProgress, s.effect, s.token, k.Fence+1, s.lease == gone
	return true, nil
}

func (m model) bury(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		return false, server.ErrNotFound
	}
	if k.Fence != s.fence || !k.isDead() {
		return false, nil
	}
	k.bereave()
	k.State = s.grave
	return true, nil
}

// owns reports whether the owner still owns its key.
func (m model) owns(o server.Owner) bool {
	k := m[o.ID]
	return k != nil && k.State == server.StateInProgress && k.Token == o.Token && k.Fence == o.Fence
}

// renew extends the lease of an owner. A short lease changes nothing: either there
// is a longer one, or both are over.
func (m model) renew(o server.Owner, lease time.Duration) {
	m[o.ID].dead = m[o.ID].dead && lease == gone
}

func (m model) settle(s step) (bool, error) {
	k := m[s.id]
	if k == nil || k.Token != s.token || k.Fence != s.fence {
		return false, server.ErrLeaseLost
	}
	if k.State == server.StateCompleted && s.end.State == server.StateCompleted {
		return true, nil
	}
	if k.State != server.StateInProgress {
		return false, server.ErrLeaseLost
	}
	k.State, k.MaybeRan = s.end.State, k.MaybeRan || s.end.MaybeRan
	k.dead = true // an unknown key is free at once; others have no lease
	if k.State == server.StateCompleted {
		k.Answer, k.replayed = s.end.Answer, s.end.ReplayFor == gone
	}
	return true, nil
}

// cancel reports whether there was a record.
func (m model) cancel(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		m[s.id] = &modelKey{expired: s.keep == gone, Record: server.Record{ID: s.id, State: server.StateCancelled, Token: s.token, Fence: 1}}
		return false, nil
	}
	live := k.State == server.StateInProgress && !k.dead
	if live || k.State == server.StateCompleted || k.State == server.StateCancelled {
		return true, nil
	}
	k.bereave()
	k.State, k.Token, k.Fence = server.StateCancelled, s.token, k.Fence+1
	k.expired = k.expired && s.keep == gone
	return true, nil
}

func (m model) sweep() int {
	swept := 0
	for id, k := range m {
		done := k.State == server.StateCompleted && k.replayed || k.State == server.StateCancelled || k.State == server.StateReleased
		if k.expired && (done || k.isDead() && k.Effect != server.Opaque) {
			delete(m, id)
			swept++
		}
	}
	return swept
}

func (m model) resolve(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		return false, server.ErrNotFound
	}
	stuck := k.State == server.StateUnknown || k.State == server.StatePoisoned || k.isDead()
	if k.Fence != s.fence || !stuck {
		return k.Token == s.token && k.Fence == s.fence+1, nil
	}
	k.State, k.Token, k.Fence, k.Deaths, k.MaybeRan = s.verdict, s.token, k.Fence+1, s.deaths, s.end.MaybeRan
	switch s.verdict {
	case server.StateCompleted:
		k.Answer, k.replayed = s.end.Answer, s.end.ReplayFor == gone
	case server.StateCancelled:
		k.expired = k.expired && s.keep == gone
	default:
	}
	return true, nil
}

func (m model) forget(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		return false, server.ErrNotFound
	}
	if k.Fence != s.fence || k.State == server.StateInProgress && !k.dead {
		return false, nil
	}
	delete(m, s.id)
	return true, nil
}

func (m model) deferral(s step) (bool, error) {
	k := m[s.id]
	if k == nil {
		return false, server.ErrNotFound
	}
	if k.Fence != s.fence || k.State != server.StateUnknown || !k.dead {
		return false, nil
	}
	k.dead = s.lease == gone
	return true, nil
}

// tooOld works because a step knows two ages and two windows only.
func (s step) tooOld(firstSent time.Time) bool {
	return !firstSent.IsZero() && firstSent.Equal(s.old) && s.window < agedFor
}
