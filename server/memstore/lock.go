package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanonce/fanonce/server/store"
)

// acquire locks the store once no transaction but t holds any of ids. It
// returns nil with s.mu held, or an error without it. t is nil for a call
// outside a transaction.
func (s *Store) acquire(ctx context.Context, t *tx, ids ...store.ID) error {
	return s.acquireWithin(ctx, s.lockTimeout, t, ids...)
}

// acquireUndecided is acquire for the first operation of a request. It does not wait long, and its error says that a
// transaction is deciding about the key.
func (s *Store) acquireUndecided(ctx context.Context, id store.ID) error {
	return toInProgress(s.acquireWithin(ctx, min(s.lockTimeout, store.MaxLockWait), nil, id))
}

// toInProgress adds to the error of a lock that another transaction is deciding about the key.
func toInProgress(err error) error {
	if errors.Is(err, ErrLocked) {
		err = fmt.Errorf("%w: %w", store.ErrInProgress, err)
	}
	return err
}

func (s *Store) acquireWithin(ctx context.Context, within time.Duration, t *tx, ids ...store.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.holder(t, ids) == nil {
		return nil
	}
	err := s.queueUp(ctx, within, t, ids)
	if err != nil {
		s.mu.Unlock()
	}
	return err
}

// queueUp waits until no transaction holds any of ids. s.mu is held before and after.
func (s *Store) queueUp(ctx context.Context, within time.Duration, t *tx, ids []store.ID) error {
	if t != nil {
		t.wants = ids
		s.queue = append(s.queue, t)
		defer func() {
			t.wants, t.waiting = nil, nil
			s.queue = slices.DeleteFunc(s.queue, func(w *tx) bool { return w == t })
		}()
	}
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for holder := s.holder(t, ids); holder != nil; holder = s.holder(t, ids) {
		if t != nil {
			if holder.isWaitingFor(t) {
				t.fail(store.ErrConflict)
				return fmt.Errorf("memstore: deadlock between transactions: %w", store.ErrConflict)
			}
			t.waiting = holder
		}
		if err := s.await(ctx, holder, timeout.C); err != nil {
			return err
		}
	}
	return nil
}

// holder returns a transaction that must end before t can have ids, or nil.
// That transaction has locked one of the ids, or it waits for one of them and
// came first. If t overtook a waiting transaction, the victim of a deadlock
// could repeatedly take its locks again before the survivor wakes.
func (s *Store) holder(t *tx, ids []store.ID) *tx {
	for _, id := range ids {
		if h := s.locks[id]; h != nil && h != t {
			return h
		}
	}
	if t == nil {
		return nil // it keeps no lock, so it delays no other transaction
	}
	for _, w := range s.queue {
		if w == t {
			break
		}
		if slices.ContainsFunc(ids, func(id store.ID) bool { return slices.Contains(w.wants, id) }) {
			return w
		}
	}
	return nil
}

// await releases s.mu until holder has ended, ctx is done, or the time is up.
func (s *Store) await(ctx context.Context, holder *tx, timeout <-chan time.Time) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-holder.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout:
		return ErrLocked
	}
}

// isWaitingFor reports that t waits for other, directly or through others. A
// transaction waits for at most one other, and a wait that would close a circle
// is refused. So the walk ends.
func (t *tx) isWaitingFor(other *tx) bool {
	for ; t != nil; t = t.waiting {
		if t == other {
			return true
		}
	}
	return false
}
