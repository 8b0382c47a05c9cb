// Package monitor has what the packages that show guards and sagas to Prometheus and OpenTelemetry share: a [Value] that
// is read beside the scrapes, and [Names] that tell its owners apart. It knows neither stores nor metrics.
package monitor

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Value is the latest result of a read that may be slow, such as a question to a database. Nobody waits for the read:
// [Value.Get] returns the latest result at once, and starts a read in the background if one is due. So there is no
// goroutine while nobody calls Get, and at most one at any time.
//
// Make one with [New]. It is safe for concurrent use.
type Value[T any] struct {
	read         func(context.Context) (T, error)
	every, limit time.Duration

	mu      sync.Mutex
	stopped bool
	began   time.Time     // of the latest read; zero: there was none
	ended   chan struct{} // closed at the end of the read in progress; nil: there is none
	cancel  context.CancelFunc
	err     error // of the latest read that has ended
	value   T
	asked   time.Time // when the read of value began; zero: no read has succeeded
}

// A Reading is the result of [Value.Get].
type Reading[T any] struct {
	// Value is the result of the latest read that succeeded; zero if none did, and then Known is false.
	Value T
	Known bool
	// Age is the time since that read began.
	Age time.Duration
	// Err is the reason why the latest read failed. It is context.DeadlineExceeded if that read does not end. It is nil
	// if the read succeeded, and before the end of the first read.
	Err error
}

// New returns a Value of read. A read begins no sooner than every after the one before, also if that one failed. Its ctx
// ends after limit. A read that does not return then keeps its goroutine, and no other read begins. A panic of read is an
// error. Both times must be positive.
func New[T any](read func(context.Context) (T, error), every, limit time.Duration) *Value[T] {
	return &Value[T]{read: read, every: every, limit: limit}
}

// Get returns the latest result, and starts a read if one is due. It does not wait for the read: its result is for a later
// call.
func (v *Value[T]) Get() Reading[T] {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if !v.stopped && v.ended == nil && (v.began.IsZero() || now.Sub(v.began) >= v.every) {
		v.start(now)
	}
	r := Reading[T]{Value: v.value, Known: !v.asked.IsZero(), Err: v.err}
	if r.Known {
		r.Age = now.Sub(v.asked)
	}
	if v.ended != nil && now.Sub(v.began) > v.limit {
		r.Err = context.DeadlineExceeded
	}
	return r
}

// start starts a read. v.mu is held.
func (v *Value[T]) start(now time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), v.limit)
	v.began, v.ended, v.cancel = now, make(chan struct{}), cancel
	go v.refresh(ctx, cancel)
}

// refresh carries out one read.
func (v *Value[T]) refresh(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	value, err := v.readSafely(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err = err; err == nil {
		v.value, v.asked = value, v.began
	}
	close(v.ended)
	v.ended = nil
}

// readSafely calls read. A panic of it is an error: looking at a service must not end it.
func (v *Value[T]) readSafely(ctx context.Context) (value T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("monitor: panic: %v", cause)
		}
	}()
	return v.read(ctx)
}

// Stop ends the read in progress, waits for its end for limit at most, and lets none begin any more.
func (v *Value[T]) Stop() {
	v.mu.Lock()
	v.stopped = true
	ended, cancel := v.ended, v.cancel
	v.mu.Unlock()
	if ended == nil {
		return
	}
	cancel()
	late := time.NewTimer(v.limit)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
}
