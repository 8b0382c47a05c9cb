package memstore

import (
	"context"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Renew implements [store.Store]. It does not wait: it skips a record that a
// transaction holds, and returns [ErrLocked].
func (s *Store) Renew(ctx context.Context, owners []store.Owner, lease time.Duration) (store.Renewal, error) {
	if err := store.CheckLease(lease); err != nil {
		return store.Renewal{}, err
	}
	if err := ctx.Err(); err != nil {
		return store.Renewal{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var got store.Renewal
	var err error
	now := s.clock()
	for _, o := range owners {
		switch r, ok := s.records[o.ID]; {
		case s.locks[o.ID] != nil:
			err = ErrLocked
		case !ok || !isOwner(r, o):
			got.Lost = append(got.Lost, o)
		default:
			s.put(extendLease(r, lease, now))
			got.Renewed = append(got.Renewed, o)
		}
	}
	return got, err
}

// Settle implements [store.Store].
func (s *Store) Settle(ctx context.Context, o store.Owner, end store.Settlement) error {
	if err := end.Check(); err != nil {
		return err
	}
	if err := s.acquire(ctx, nil, o.ID); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, ok := s.records[o.ID]
	if !ok {
		return store.ErrLeaseLost
	}
	r, err := settle(r, o, end, s.clock())
	if err != nil {
		return err
	}
	s.put(r)
	s.noteDeadLetter(o.ID, end)
	return nil
}

// noteDeadLetter marks the key of a run that end has settled. s.mu is held.
func (s *Store) noteDeadLetter(id store.ID, end store.Settlement) {
	if end.DeadLetter && end.State == store.StateCompleted {
		s.dead[id] = true
	}
}

// settle ends o's run of r. A completion that o repeats leaves r as it is.
func settle(r store.Record, o store.Owner, end store.Settlement, now time.Time) (store.Record, error) {
	if isOwner(r, o) || end.EndsUnknown() && isUnknownOf(r, o) {
		return toSettled(r, end, now), nil
	}
	again := r.State == store.StateCompleted && end.State == store.StateCompleted
	if again && r.Token == o.Token && r.Fence == o.Fence {
		return r, nil
	}
	return r, store.ErrLeaseLost
}

// Cancel implements [store.Store].
func (s *Store) Cancel(ctx context.Context, req store.CancelRequest) (store.Record, bool, error) {
	if err := req.Check(); err != nil {
		return store.Record{}, false, err
	}
	if err := s.acquire(ctx, nil, req.ID); err != nil {
		return store.Record{}, false, toInProgress(err)
	}
	defer s.mu.Unlock()
	now := s.clock()
	before, ok := s.records[req.ID]
	if after, changed := cancel(before, ok, req, now); changed {
		s.put(after)
	}
	if !ok {
		return store.Record{}, false, nil
	}
	return show(before, now), true, nil
}

// cancel returns the record after req, and whether req changes anything. There
// may be no record before.
func cancel(r store.Record, exists bool, req store.CancelRequest, now time.Time) (store.Record, bool) {
	switch {
	case !exists:
		return newTombstone(req, now), true
	case isCancellable(r, now), req.Undone && isUndoable(r):
		return toCancelled(r, req, now), true
	default:
		return r, false
	}
}
