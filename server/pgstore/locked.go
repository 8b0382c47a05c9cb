package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// retryUndecided does an operation that waits briefly for locks, again and again where another transaction
// holds the key, for at most [store.MaxLockWait] in all. Then it says that the key is being decided about.
func (s *Store) retryUndecided(ctx context.Context, do func() (store.Record, bool, error)) (store.Record, bool, error) {
	r, ok, err := retryLocked(ctx, s.lockWait(), do)
	return r, ok, toInProgress(err)
}

// toInProgress adds to the error of a lock that another transaction holds the key.
func toInProgress(err error) error {
	if err != nil && pgkit.Classify(err) == pgkit.FailureLockTimeout && !errors.Is(err, errUnconfirmed) {
		return fmt.Errorf("%w: %w", store.ErrInProgress, err)
	}
	return err
}

// lockWait is how long an operation waits for locks that a request begins with.
func (s *Store) lockWait() time.Duration { return min(s.cfg.LockTimeout, store.MaxLockWait) }

// retryPatiently is the same for an operation that can wait for Config.LockTimeout, and fails then.
func (s *Store) retryPatiently(ctx context.Context, do func() (store.Record, bool, error)) (store.Record, bool, error) {
	return retryLocked(ctx, s.cfg.LockTimeout, do)
}

func retryLocked(ctx context.Context, within time.Duration, do func() (store.Record, bool, error)) (store.Record, bool, error) {
	for wait := pgkit.WaitForLock(within); ; {
		if r, ok, err := do(); !wait.Again(ctx, err) {
			return r, ok, err
		}
	}
}
