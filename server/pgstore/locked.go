package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

const (
	// lockedLasts is how long a key counts as locked after a write met its lock.
	lockedLasts = time.Second
	// maxLocked bounds how many keys are known as locked.
	maxLocked = 4096
)

// lockedKeys are the keys that another transaction held a moment ago. A write of such a key goes
// alone, or each flush that it is in would meet the lock. It is safe for concurrent use.
type lockedKeys struct {
	some  atomic.Bool // most of the time there is none
	mu    sync.Mutex
	until map[store.ID]time.Time
}

// note remembers that the key is locked, if err says so.
func (l *lockedKeys) note(id store.ID, err error) {
	if err == nil || pgkit.Classify(err) != pgkit.FailureLockTimeout {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.until) >= maxLocked {
		l.forget()
	}
	if len(l.until) >= maxLocked {
		return // it costs a flush a round trip
	}
	if l.until == nil {
		l.until = make(map[store.ID]time.Time)
	}
	l.until[id] = time.Now().Add(lockedLasts)
	l.some.Store(true)
}

func (l *lockedKeys) lately(id store.ID) bool {
	if !l.some.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.until[id]
	if ok && time.Until(until) <= 0 {
		l.forget()
		return false
	}
	return ok
}

// forget drops keys whose time is over. l.mu is held.
func (l *lockedKeys) forget() {
	for id, until := range l.until {
		if time.Until(until) <= 0 {
			delete(l.until, id)
		}
	}
	l.some.Store(len(l.until) > 0)
}

// retryUndecided does an operation that waits briefly for locks, again and again where another transaction
// holds the key, for at most [store.MaxLockWait] in all. Then it says that the key is being decided about.
func (s *Store) retryUndecided(ctx context.Context, do func() (store.Record, bool, error)) (store.Record, bool, error) {
	r, ok, err := retryLocked(ctx, s.lockWait(), do)
	return r, ok, beingDecided(err)
}

// beingDecided adds to the error of a lock that another transaction holds the key.
func beingDecided(err error) error {
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

// contentionLasts is how long a [contention] is expected to go on after it was seen.
const contentionLasts = time.Second

// A contention knows whether [Store.OnceFunc] lately met keys that were used before. Where keys repeat
// seldom, an insert that fails on a taken key costs less than one that skips it. But a failure fails the
// whole transaction, and leaves a row for vacuum and an error in the server's log. So for a second after
// a failure no such insert is sent, and only inserts that are running at that moment may still fail.
//
// It is safe for concurrent use.
type contention struct{ until atomic.Pointer[time.Time] } // nil: it was never seen

func (c *contention) note() {
	until := time.Now().Add(contentionLasts)
	c.until.Store(&until)
}

func (c *contention) lately() bool {
	until := c.until.Load()
	return until != nil && time.Until(*until) > 0
}
