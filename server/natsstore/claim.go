package natsstore

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Claim implements [store.Store]. A new key costs one round trip, a duplicate two. It ignores Asynchronous.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) (store.Record, bool, error) {
	if err := checkClaim(req); err != nil {
		return store.Record{}, false, err
	}
	absent := &entry{} // the compare-and-set finds out
	absent.ID = req.ID
	if tooOld(req.FirstSent, req.Window, s.now()) {
		absent = nil // the window is for absent keys only
	}
	won, blind := false, absent != nil
	c, err := s.change(ctx, req.ID, absent, nil, func(e *entry, now time.Time) (verdict, error) {
		if e.exists() {
			won = e.ownedBy(store.Owner{ID: req.ID, Token: req.Token, Fence: e.Fence})
			return keepIt, nil
		}
		if !blind && tooOld(req.FirstSent, req.Window, now) {
			return keepIt, store.ErrExpired
		}
		blind = false
		rev := e.rev
		*e = claimed(req, now)
		e.rev, won = rev, true
		return writeIt, nil
	})
	if err != nil {
		return store.Record{}, false, err
	}
	return s.owned(c, won), won, nil
}

// owned remembers the run that the caller has won.
func (s *Store) owned(c change, won bool) store.Record {
	if won {
		s.runs.note(c.after)
	}
	return c.after.shown(c.now)
}

// TakeOver implements [store.Store].
func (s *Store) TakeOver(ctx context.Context, req store.ClaimRequest, from int64) (store.Record, bool, error) {
	if err := checkClaim(req); err != nil {
		return store.Record{}, false, err
	}
	c, err := s.change(ctx, req.ID, nil, nil, func(e *entry, now time.Time) (verdict, error) {
		switch {
		case !e.exists():
			return keepIt, store.ErrNotFound
		case e.Fence != from || e.State != store.StateReleased && !e.dead(now):
			return keepIt, nil
		case tooOld(e.FirstSent, req.Window, now):
			return keepIt, store.ErrExpired
		}
		e.bury(now)
		e.begin(req, now)
		return writeIt, nil
	})
	if err != nil {
		return store.Record{}, false, err
	}
	won := c.did == writeIt
	return s.owned(c, won), won, nil
}

// Quarantine implements [store.Store].
func (s *Store) Quarantine(ctx context.Context, req store.QuarantineRequest) (store.Record, bool, error) {
	if err := checkQuarantine(req.To); err != nil {
		return store.Record{}, false, err
	}
	c, err := s.change(ctx, req.ID, nil, nil, func(e *entry, now time.Time) (verdict, error) {
		switch {
		case !e.exists():
			return keepIt, store.ErrNotFound
		case e.Fence != req.From || !e.dead(now):
			return keepIt, nil
		}
		e.quarantine(req, now)
		return writeIt, nil
	})
	if err != nil {
		return store.Record{}, false, err
	}
	return c.after.shown(c.now), c.did == writeIt, nil
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	if err := checkCancel(req); err != nil {
		return store.Record{}, false, err
	}
	c, err := s.change(ctx, req.ID, nil, nil, func(e *entry, now time.Time) (verdict, error) {
		if e.exists() {
			if !e.cancellable(req, now) {
				return keepIt, nil
			}
			e.cancel(req, now)
			return writeIt, nil
		}
		rev := e.rev
		*e = tombstone(req, now)
		e.rev = rev
		return writeIt, nil
	})
	if err != nil {
		return store.Record{}, false, err
	}
	if !c.before.exists() {
		return store.Record{}, false, nil
	}
	return c.before.shown(c.now), true, nil
}
