package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/server"
)

// Read implements [server.Store]. It waits for no transaction and sees what is
// committed.
func (s *Store) Read(ctx context.Context, id server.ID) (server.Record, error) {
	if err := ctx.Err(); err != nil {
		return server.Record{}, err
	}
	r, ok := s.find(id)
	if !ok {
		return server.Record{}, server.ErrNotFound
	}
	return r, nil
}

func (s *Store) find(id server.ID) (server.Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	if !ok {
		return server.Record{}, false
	}
	return shown(r, s.clock()), true
}

// Sweep implements [server.Store]. It passes over records that a transaction
// holds, and returns an error wrapping [ErrArgument] if limit is not positive.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, fmt.Errorf("%w: limit %d is not positive", ErrArgument, limit)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, swept, dropped := s.clock(), 0, 0
	for id, r := range s.records {
		switch {
		case s.locks[id] != nil:
		case swept < limit && sweepable(r, now):
			s.remove(id)
			swept++
		case dropped < limit && stale(r, now):
			r.Answer.Envelope = nil
			s.put(r)
			dropped++
		}
	}
	return swept, nil
}

// Stats implements [server.Store]. Bytes is always 0.
func (s *Store) Stats(ctx context.Context) (server.Stats, error) {
	if err := ctx.Err(); err != nil {
		return server.Stats{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := server.Stats{ByState: make(map[server.State]int64)}
	now, oldest := s.clock(), time.Duration(0)
	for _, r := range s.records {
		st.ByState[r.State]++
		if r.State == server.StateInProgress {
			oldest = max(oldest, now.Sub(r.CreatedAt))
		}
	}
	st.OldestInProgress = oldest
	return st, nil
}
