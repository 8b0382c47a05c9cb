package memstore

import (
	"cmp"
	"context"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// Read implements [store.Store]. It waits for no transaction and sees only
// committed data.
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if err := ctx.Err(); err != nil {
		return store.Record{}, err
	}
	r, ok := s.find(id)
	if !ok {
		return store.Record{}, store.ErrNotFound
	}
	return r, nil
}

func (s *Store) find(id store.ID) (store.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	if !ok {
		return store.Record{}, false
	}
	return show(r, s.clock()), true
}

// Sweep implements [store.Store]. It skips records that a transaction holds. It
// returns an error wrapping [ErrArgument] if limit is not positive.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if err := cmp.Or(store.CheckLimit(limit), ctx.Err()); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, swept, dropped := s.clock(), 0, 0
	for id, r := range s.records {
		switch {
		case s.locks[id] != nil:
		case swept < limit && isSweepable(r, now):
			s.remove(id)
			swept++
		case dropped < limit && isStale(r, now):
			r.Answer.Envelope = nil
			s.put(r)
			dropped++
		}
	}
	return swept, nil
}

// Stats implements [store.Store]. Bytes is always 0.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	if err := ctx.Err(); err != nil {
		return store.Stats{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := store.Stats{ByState: make(map[store.State]int64)}
	now, oldest := s.clock(), time.Duration(0)
	for _, r := range s.records {
		st.ByState[r.State]++
		if r.State == store.StateInProgress {
			oldest = max(oldest, now.Sub(r.CreatedAt))
		}
	}
	st.OldestInProgress = oldest
	return st, nil
}
