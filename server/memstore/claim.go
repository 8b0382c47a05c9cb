package memstore

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server"
)

// Claim implements [server.Store]. It waits only where a transaction is about
// to make the absent key a tombstone, for at most [server.MaxLockWait]: a duplicate gets
// the record as it stands.
func (s *Store) Claim(ctx context.Context, req server.ClaimRequest) (server.Record, bool, error) {
	if err := checkClaim(req); err != nil {
		return server.Record{}, false, err
	}
	if err := ctx.Err(); err != nil {
		return server.Record{}, false, err
	}
	if r, ok := s.find(req.ID); ok {
		return r, repeated(r, req), nil
	}
	if err := s.undecided(ctx, req.ID); err != nil {
		return server.Record{}, false, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	if r, ok := s.records[req.ID]; ok {
		return shown(r, now), repeated(r, req), nil
	}
	if tooOld(req.FirstSent, req.Window, now) {
		return server.Record{}, false, server.ErrExpired
	}
	r := claimed(req, now)
	s.put(r)
	return shown(r, now), true, nil
}

// repeated reports that req is the claim which r's owner made: its answer was
// lost on the way.
func repeated(r server.Record, req server.ClaimRequest) bool {
	return owns(r, server.Owner{ID: req.ID, Token: req.Token, Fence: r.Fence})
}

// TakeOver implements [server.Store]. It waits as Claim does.
func (s *Store) TakeOver(ctx context.Context, req server.ClaimRequest, from int64) (server.Record, bool, error) {
	if err := checkClaim(req); err != nil {
		return server.Record{}, false, err
	}
	if err := s.undecided(ctx, req.ID); err != nil {
		return server.Record{}, false, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	r, ok := s.records[req.ID]
	if !ok {
		return server.Record{}, false, server.ErrNotFound
	}
	if r.Fence != from || r.State != server.StateReleased && !dead(r, now) {
		return shown(r, now), false, nil
	}
	if tooOld(r.FirstSent, req.Window, now) {
		return server.Record{}, false, server.ErrExpired
	}
	r = takenOver(r, req, now)
	s.put(r)
	return shown(r, now), true, nil
}

// Bury implements [server.Store]. It waits as Claim does.
func (s *Store) Bury(ctx context.Context, req server.BuryRequest) (server.Record, bool, error) {
	if err := checkBury(req.To); err != nil {
		return server.Record{}, false, err
	}
	if err := s.undecided(ctx, req.ID); err != nil {
		return server.Record{}, false, err
	}
	defer s.mu.Unlock()
	return s.moveRecord(req.ID, func(r server.Record, now time.Time) (server.Record, bool) {
		if r.Fence != req.From || !dead(r, now) {
			return r, false
		}
		r = buried(r, req, now)
		s.put(r)
		return r, true
	})
}
