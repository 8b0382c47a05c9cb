package memstore

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server"
)

// Renew implements [server.Store].
func (s *Store) Renew(ctx context.Context, owners []server.Owner, lease time.Duration) (lost []server.Owner, err error) {
	if err := checkLease(lease); err != nil {
		return nil, err
	}
	ids := make([]server.ID, len(owners))
	for i, o := range owners {
		ids[i] = o.ID
	}
	if err := s.acquire(ctx, nil, ids...); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	until := s.clock().Add(lease)
	for _, o := range owners {
		r, ok := s.records[o.ID]
		if !ok || !owns(r, o) {
			lost = append(lost, o)
			continue
		}
		r.LeaseUntil = until
		s.put(r)
	}
	return lost, nil
}

// Settle implements [server.Store].
func (s *Store) Settle(ctx context.Context, o server.Owner, end server.Settlement) error {
	if err := checkSettlement(end); err != nil {
		return err
	}
	if err := s.acquire(ctx, nil, o.ID); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, ok := s.records[o.ID]
	if !ok {
		return server.ErrLeaseLost
	}
	r, err := settle(r, o, end, s.clock())
	if err != nil {
		return err
	}
	s.put(r)
	return nil
}

// settle ends o's run of r. A completion that o repeats leaves r as it is.
func settle(r server.Record, o server.Owner, end server.Settlement, now time.Time) (server.Record, error) {
	if owns(r, o) {
		return settled(r, end, now), nil
	}
	again := r.State == server.StateCompleted && end.State == server.StateCompleted
	if again && r.Token == o.Token && r.Fence == o.Fence {
		return r, nil
	}
	return r, server.ErrLeaseLost
}

// Cancel implements [server.Store].
func (s *Store) Cancel(ctx context.Context, req server.CancelRequest) (server.Record, bool, error) {
	if err := checkCancel(req); err != nil {
		return server.Record{}, false, err
	}
	if err := s.acquire(ctx, nil, req.ID); err != nil {
		return server.Record{}, false, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	before, ok := s.records[req.ID]
	if after, changed := cancel(before, ok, req, now); changed {
		s.put(after)
	}
	if !ok {
		return server.Record{}, false, nil
	}
	return shown(before, now), true, nil
}

// cancel returns what req makes of the record, if there is one, and whether it
// changes anything.
func cancel(r server.Record, exists bool, req server.CancelRequest, now time.Time) (server.Record, bool) {
	switch {
	case !exists:
		return tombstone(req, now), true
	case cancellable(r, now):
		return cancelled(r, req, now), true
	default:
		return r, false
	}
}
