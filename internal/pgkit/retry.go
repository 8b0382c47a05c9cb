package pgkit

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	conflictTries = 3
	conflictPause = 20 * time.Millisecond
)

// RetryConflict calls try again after a serialization failure or deadlock, at most 3 times in all.
// It waits in between for a random time of at most 20 ms, then 40 ms. After such a failure try must
// leave nothing behind. It returns the last error; if ctx ends in a pause, too.
func RetryConflict[T any](ctx context.Context, try func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		if value, err := try(); !AgainAfterConflict(ctx, n, err) {
			return value, err
		}
	}
}

// AgainAfterConflict reports whether an operation whose nth try failed with err is to be tried again, by
// the rule of [RetryConflict]. It blocks for the pause. It is for values that are too large to be handed
// through functions.
func AgainAfterConflict(ctx context.Context, n int, err error) bool {
	if err == nil || n >= conflictTries || Classify(err) != FailureConflict {
		return false
	}
	return pause(ctx, rand.N(time.Duration(n)*conflictPause))
}

// lockPause is how long [RetryLocked] waits on average before it tries again.
const lockPause = 40 * time.Millisecond

// RetryLocked calls try again as long as its error says that a row stayed locked, for at most
// within. It pauses for a random time of 20 to 60 ms in between. In a pause it holds no connection.
// So try should wait only a few milliseconds for a lock, and must leave nothing behind when it
// fails like that. It returns the last error; if ctx ends in a pause, too. It tries at least once.
func RetryLocked[T any](ctx context.Context, within time.Duration, try func() (T, error)) (T, error) {
	for wait := WaitForLock(within); ; {
		if value, err := try(); !wait.Again(ctx, err) {
			return value, err
		}
	}
}

// A LockWait is the rule of [RetryLocked] for a loop of the caller's: for values that are too large to be
// handed through functions. It is for one goroutine.
type LockWait struct {
	began  time.Time
	within time.Duration
}

// WaitForLock returns a LockWait that begins now and lasts for within.
func WaitForLock(within time.Duration) LockWait { return LockWait{time.Now(), within} }

// Again reports whether a try that failed with err is to be repeated. It blocks for the pause.
func (w LockWait) Again(ctx context.Context, err error) bool {
	if err == nil || Classify(err) != FailureLockTimeout {
		return false
	}
	d := lockPause/2 + rand.N(lockPause)
	return time.Since(w.began)+d <= w.within && pause(ctx, d)
}

// pause reports whether ctx lasted for d.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
