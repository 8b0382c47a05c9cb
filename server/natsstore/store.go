package natsstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

var (
	_ store.Store      = (*Store)(nil)
	_ store.WatchStore = (*Store)(nil)
)

// A Store keeps records in a NATS JetStream key-value bucket. [Open] makes it. It is safe for concurrent use.
//
// It is not a [store.TxStore]: JetStream cannot commit a record together with the rows of a handler, so a guard refuses
// Transactional routes over it.
type Store struct {
	stream *stream
	clock  *clock
	log    *slog.Logger
	runs   *runs
	waits  *waits
	sweeps sweeps
	limit  int // the longest message
	cfg    Config

	stop context.CancelFunc
	once sync.Once
	// fault, of tests, changes what a read of a key's record returns.
	fault func(entry) entry
}

// Close ends the store's own goroutines and waits for them. Every channel of [Store.Watch] is closed. The connection
// stays open: its owner closes it. Close can be called again.
func (s *Store) Close() {
	s.once.Do(func() {
		s.stop()
		s.waits.close()
		s.clock.close()
	})
}

// read returns the key's entry from the leader, with the whole answer. It may be stale: nothing but the reply to a
// compare-and-set decides.
func (s *Store) read(ctx context.Context, id store.ID) (entry, error) {
	for n := 0; ; n++ {
		m, err := s.stream.last(ctx, s.stream.bucket.of(keySpace, id))
		if err != nil {
			return entry{}, err
		}
		e := entry{}
		if m.rev > 0 {
			if e, err = decode(id, m.rev, m.data); err != nil {
				return entry{}, err
			}
		}
		e.ID = id
		if s.fault != nil {
			e = s.fault(e)
		}
		switch whole, err := s.join(ctx, &e); {
		case err != nil:
			return entry{}, err
		case whole:
			return e, nil
		case n == joinAttempts:
			return entry{}, unreadable(id, "a part of the answer is missing")
		}
		// The record has moved on, and its parts were deleted: read it again.
		if err := pause(ctx, n); err != nil {
			return entry{}, err
		}
	}
}

// Read implements [store.Store].
func (s *Store) Read(ctx context.Context, id store.ID) (store.Record, error) {
	if err := ctx.Err(); err != nil {
		return store.Record{}, err
	}
	e, err := s.read(ctx, id)
	if err != nil {
		return store.Record{}, err
	}
	if !e.exists() {
		return store.Record{}, store.ErrNotFound
	}
	return e.shown(s.now()), nil
}

func (s *Store) now() time.Time { return s.clock.now() }
