package memstore

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Claim implements [store.Store]. It waits only for a transaction that is about to make the absent key a tombstone,
// for at most [store.MaxLockWait]. A duplicate gets the present record.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return store.Record{}, false, err
	}
	if r, ok := s.find(req.ID); ok {
		return r, isRepeated(r, req), nil
	}
	if err := s.acquireUndecided(ctx, req.ID); err != nil {
		return store.Record{}, false, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	if r, ok := s.records[req.ID]; ok {
		return show(r, now), isRepeated(r, req), nil
	}
	if isTooOld(req.FirstSent, req.Window, now) {
		return store.Record{}, false, store.ErrExpired
	}
	r := newRecord(s.trimClaim(req), now)
	s.put(r)
	return show(r, now), true, nil
}

// isRepeated reports that req is the claim of r's owner: the answer to that claim
// was lost.
func isRepeated(r store.Record, req store.ClaimRequest) bool {
	return isOwner(r, store.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence})
}

// TakeOver implements [store.Store]. It waits as Claim does.
func (s *Store) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	if err := s.acquireUndecided(ctx, req.ID); err != nil {
		return store.Record{}, false, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	r, ok := s.records[req.ID]
	if !ok {
		return store.Record{}, false, store.ErrNotFound
	}
	if r.Fence != from || r.State != store.StateReleased && !isDead(r, now) {
		return show(r, now), false, nil
	}
	if isTooOld(r.FirstSent, req.Window, now) {
		return store.Record{}, false, store.ErrExpired
	}
	r = toTakenOver(r, s.trimClaim(req), now)
	s.put(r)
	return show(r, now), true, nil
}

// Quarantine implements [store.Store]. It waits as Claim does.
func (s *Store) Quarantine(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	if err := s.acquireUndecided(ctx, req.ID); err != nil {
		return store.Record{}, false, err
	}
	defer s.mu.Unlock()
	return s.moveRecord(req.ID, func(r store.Record, now time.Time) (store.Record, bool) {
		if r.Fence != req.From || !isDead(r, now) {
			return r, false
		}
		r = toQuarantined(r, req, now)
		s.put(r)
		return r, true
	})
}
