package monitor_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/monitor"
)

const (
	every = 10 * time.Second
	limit = 3 * time.Second
)

var errDown = errors.New("no tea")

// A source counts how often it is read, and answers with that number after a while.
type source struct {
	reads atomic.Int64
	takes time.Duration
	err   error
}

func (s *source) read(ctx context.Context) (int64, error) {
	n := s.reads.Add(1)
	select {
	case <-time.After(s.takes):
		return n, s.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Get does not wait, and only one of many callers begins a read.
func TestValue_concurrent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: time.Second}
		v := monitor.New(s.read, every, limit)
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { require.Equal(t, monitor.Reading[int64]{}, v.Get(), "nothing is known yet") })
		}
		wg.Wait()
		require.Zero(t, time.Since(start), "nobody waited")
		time.Sleep(2 * time.Second)
		require.Equal(t, monitor.Reading[int64]{Value: 1, Known: true, Age: 2 * time.Second}, v.Get())
		require.EqualValues(t, 1, s.reads.Load())
	})
}

// A read begins when the time is over since the one before began, and the value before it stays until it has ended.
func TestValue_every(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: time.Second}
		v := monitor.New(s.read, every, limit)
		v.Get()
		time.Sleep(every - 1)
		require.EqualValues(t, 1, v.Get().Value)
		synctest.Wait()
		require.EqualValues(t, 1, s.reads.Load(), "it is too early")
		time.Sleep(time.Nanosecond)
		require.Equal(t, monitor.Reading[int64]{Value: 1, Known: true, Age: every}, v.Get())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, monitor.Reading[int64]{Value: 2, Known: true, Age: time.Second}, v.Get())
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.EqualValues(t, 2, s.reads.Load(), "nobody asks, and so nothing is read")
	})
}

// A failed read keeps the value, and is not repeated at once.
func TestValue_failure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		v := monitor.New(s.read, every, limit)
		v.Get()
		synctest.Wait()
		s.err = errDown
		time.Sleep(every)
		v.Get()
		synctest.Wait()
		for range 9 {
			require.Equal(t, monitor.Reading[int64]{Value: 1, Known: true, Age: time.Since(synctestStart), Err: errDown}, v.Get())
			time.Sleep(time.Second)
		}
		require.EqualValues(t, 2, s.reads.Load(), "the interval counts after a failure too")
		s.err = nil
		time.Sleep(every)
		require.ErrorIs(t, v.Get().Err, errDown, "until the next read has ended")
		synctest.Wait()
		require.Equal(t, monitor.Reading[int64]{Value: 3, Known: true}, v.Get())
	})
}

// synctestStart is the time at which the clock of a bubble begins.
var synctestStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// A read has a time limit.
func TestValue_limit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: time.Hour}
		v := monitor.New(s.read, every, limit)
		v.Get()
		time.Sleep(limit + 1)
		synctest.Wait()
		require.Equal(t, monitor.Reading[int64]{Err: context.DeadlineExceeded}, v.Get())
	})
}

// A read that does not heed its ctx counts as failed, and no other one begins beside it.
func TestValue_deaf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		release := make(chan struct{})
		v := monitor.New(func(context.Context) (int64, error) {
			defer func() { <-release }()
			return reads.Add(1), nil
		}, every, limit)
		v.Get()
		time.Sleep(limit)
		require.NoError(t, v.Get().Err, "it has not taken longer than it may")
		time.Sleep(time.Hour)
		require.Equal(t, monitor.Reading[int64]{Err: context.DeadlineExceeded}, v.Get())
		require.EqualValues(t, 1, reads.Load())
		start := time.Now()
		v.Stop()
		require.Equal(t, limit, time.Since(start), "Stop does not wait for ever")
		close(release)
		synctest.Wait()
	})
}

// A panic ends nothing.
func TestValue_panic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := monitor.New(func(context.Context) (int64, error) { panic("tea") }, every, limit)
		v.Get()
		synctest.Wait()
		require.ErrorContains(t, v.Get().Err, "tea")
	})
}

// Stop ends the read in progress, and nothing is left of it.
func TestValue_stop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{takes: time.Hour}
		v := monitor.New(s.read, every, limit)
		v.Stop()
		v.Get()
		require.Zero(t, s.reads.Load(), "it was stopped before")
		v = monitor.New(s.read, every, limit)
		v.Get()
		synctest.Wait()
		start := time.Now()
		v.Stop()
		v.Stop()
		require.Zero(t, time.Since(start))
		time.Sleep(every)
		require.ErrorIs(t, v.Get().Err, context.Canceled)
		require.EqualValues(t, 1, s.reads.Load())
	}) // Test fails if a goroutine is left
}

// Between reads there is no goroutine.
func TestValue_goroutines(t *testing.T) { // not parallel: it counts the goroutines of the process
	before := runtime.NumGoroutine()
	v := monitor.New((&source{}).read, time.Nanosecond, limit)
	for range 100 {
		v.Get()
	}
	v.Stop()
	for range 1000 { // the last instructions of a goroutine that has said it is ready
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%d goroutines are left", runtime.NumGoroutine()-before)
}
