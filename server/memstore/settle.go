package memstore

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server"
)

// Renew implements [server.Store]. It does not wait: it passes over a record that a
// transaction holds, and returns [ErrLocked].
func (s *Store) Renew(ctx context.Context, owners []server.Owner, lease time.Duration) (server.Renewal, error) {
	if err := checkLease(lease); err != nil {
		return server.Renewal{}, err
	}
	if err := ctx.Err(); err != nil {
		return server.Renewal{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var got server.Renewal
	var err error
	now := s.clock()
	for _, o := range owners {
		switch r, ok := s.records[o.ID]; {
		case s.locks[o.ID] != nil:
			err = ErrLocked
		case !ok || !owns(r, o):
			got.Lost = append(got.Lost, o)
		default:
			s.put(renewed(r, lease, now))
			got.Renewed = append(got.Renewed, o)
		}
	}
	return got, err
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
