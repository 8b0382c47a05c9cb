package natsstore

import (
	"context"

	"github.com/fanonce/fanonce/server/store"
)

// Stats implements [store.Store]. It reads the whole bucket. A key that moves meanwhile can count twice, and so
// can a key whose last write a lagging replica lacks. Bytes is the size of the stream on one server.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	if err := ctx.Err(); err != nil {
		return store.Stats{}, err
	}
	st := store.Stats{ByState: make(map[store.State]int64)}
	now := s.now()
	err := s.all(ctx, func(e entry) error {
		if !e.exists() {
			return nil
		}
		st.ByState[e.State]++
		if e.State == store.StateInProgress {
			st.OldestInProgress = max(st.OldestInProgress, now.Sub(e.CreatedAt))
		}
		return nil
	})
	if err != nil {
		return store.Stats{}, err
	}
	info, err := s.stream.state(ctx)
	st.Bytes = int64(info.State.Bytes)
	return st, err
}
