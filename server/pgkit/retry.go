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

// RetryConflict calls try until its error is none or another than a
// serialization failure or deadlock, at most 3 times, with a random pause of at
// most 20 ms, then 40 ms, in between. try must leave nothing behind when it
// fails like that. It returns the last error; if ctx ends in a pause, too.
func RetryConflict[T any](ctx context.Context, try func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		value, err := try()
		if Classify(err) != FailureConflict || n == conflictTries {
			return value, err
		}
		pause := time.NewTimer(rand.N(time.Duration(n) * conflictPause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return value, err
		}
	}
}

// lockPause is how long [RetryLocked] waits on average before it tries again.
const lockPause = 40 * time.Millisecond

// RetryLocked calls try until its error is none or another than that a row stayed locked, for at most
// within, with random pauses of 20 to 60 ms in between. In a pause it holds no connection. So try should
// wait only a few milliseconds for a lock, and must leave nothing behind when it fails like that. It returns
// the last error; if ctx ends in a pause, too. It tries at least once.
func RetryLocked[T any](ctx context.Context, within time.Duration, try func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		value, err := try()
		pause := lockPause/2 + rand.N(lockPause)
		if Classify(err) != FailureLockTimeout || time.Since(began)+pause > within {
			return value, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return value, err
		}
	}
}
