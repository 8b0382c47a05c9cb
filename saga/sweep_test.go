package saga_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// A sweeping journal has its sweeps done by the test.
type sweeping struct {
	journal.Journal
	sweep func(ctx context.Context, limit int) (int, error)

	mu     sync.Mutex
	limits []int // of each sweep
	at     []time.Time
}

func (j *sweeping) Sweep(ctx context.Context, limit int) (int, error) {
	j.mu.Lock()
	j.limits, j.at = append(j.limits, limit), append(j.at, time.Now())
	j.mu.Unlock()
	return j.sweep(ctx, limit)
}

// since returns what was asked for since the last call.
func (j *sweeping) since() (limits []int, at []time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	limits, at = j.limits, j.at
	j.limits, j.at = nil, nil
	return limits, at
}

// sweepFor runs the engine's sweeper for a while.
func sweepFor(s *stage, e *saga.Engine, d time.Duration) {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	e.RunSweeper(ctx)
}

// swept returns how many sagas the observer heard of, and in how many batches.
func (e *events) swept() (sagas, batches int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.engine {
		if event.Kind == saga.EventSwept {
			sagas += event.Count
			batches++
		}
	}
	return sagas, batches
}

// Sagas go a round after their time, in batches; and while there is nothing to do a round is
// one question.
func TestRunSweeper(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		metrics := saga.NewMetrics()
		j := &sweeping{Journal: s.journal, sweep: s.journal.Sweep}
		e := s.openWith(j, saga.Config{
			Definitions: []saga.AnyDefinition{checkout}, Observer: both{s.events, metrics},
			Keep: time.Hour, SweepBatch: 7, Poll: time.Minute, Lease: time.Minute,
		})
		const sagas = 30
		for n := range sagas {
			_, err := checkout.Run(s.Context(), e, key(s.T, fmt.Sprint("k-", n)), basket)
			require.NoError(s, err)
		}
		sweepFor(s, e, 50*time.Minute)
		limits, _ := j.since()
		require.InDelta(s, 50, len(limits), 10)
		done, batches := s.events.swept()
		require.Zero(s, done+batches, "nothing was deleted")

		time.Sleep(10 * time.Minute)
		sweepFor(s, e, 10*time.Second)
		stats, err := e.Stats(s.Context())
		require.NoError(s, err)
		require.Empty(s, stats.ByStatus)
		done, batches = s.events.swept()
		require.Equal(s, sagas, done)
		require.Equal(s, 5, batches)
		require.EqualValues(s, sagas, metrics.Snapshot().Swept)
		require.Zero(s, metrics.Snapshot().SweepErrors)
	})
}

// both are two observers.
type both [2]saga.Observer

func (b both) Observe(ctx context.Context, e saga.Event) {
	for _, o := range b {
		o.Observe(ctx, e)
	}
}

// However much there is to delete, the journal has time for others.
func TestRunSweeper_rests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		each  time.Duration // for a saga
		share float64       // of the time
	}{
		{"quick batches", 10 * time.Microsecond, 0.2},
		{"slow batches", time.Millisecond, 0.2},
		{"batches with the longest rest", 10 * time.Millisecond, 0.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				busy := time.Duration(0)
				j := &sweeping{Journal: s.journal}
				j.sweep = func(_ context.Context, limit int) (int, error) {
					time.Sleep(time.Duration(limit) * tt.each)
					busy += time.Duration(limit) * tt.each
					return limit, nil
				}
				e := s.openOn(j, checkout)
				sweepFor(s, e, time.Minute)
				limits, at := j.since()
				require.Equal(s, saga.DefaultSweepBatch, limits[len(limits)-1])
				require.InDelta(s, tt.share, busy.Seconds()/at[len(at)-1].Sub(at[0]).Seconds(), 0.02)
			})
		})
	}
}

// A journal that is down is asked ever more rarely, each failure is told, and when it is back
// all goes on.
func TestRunSweeper_failures(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		metrics := saga.NewMetrics()
		begun := time.Now()
		j := &sweeping{Journal: s.journal}
		j.sweep = func(ctx context.Context, limit int) (int, error) {
			if time.Since(begun) < time.Hour {
				return 0, errNoNetwork
			}
			return s.journal.Sweep(ctx, limit)
		}
		e := s.openWith(j, saga.Config{Definitions: []saga.AnyDefinition{checkout}, Observer: both{s.events, metrics}, Poll: time.Minute})
		sweepFor(s, e, 2*time.Hour)
		_, at := j.since()
		require.Less(s, at[1].Sub(at[0]), 2*time.Second, "soon again at first")
		failed := s.events.count(saga.EventSweepError)
		require.InDelta(s, 65, failed, 15)
		require.InDelta(s, 60, len(at)-failed, 15, "rounds when it was back")
		require.ErrorIs(s, s.events.first(saga.EventSweepError).Err, errNoNetwork)
		require.EqualValues(s, failed, metrics.Snapshot().SweepErrors)
	})
}

// A sweep that hangs is given up, and the next one goes on.
func TestRunSweeper_journalHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		j := &sweeping{Journal: s.journal}
		j.sweep = func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
		sweepFor(s, s.openOn(j, checkout), time.Hour)
		require.Greater(s, s.events.count(saga.EventSweepError), 30)
		require.ErrorIs(s, s.events.first(saga.EventSweepError).Err, context.DeadlineExceeded)
	})
}

// Close ends the sweeper, also in the middle of a batch, and waits for it. That is not a failure.
func TestRunSweeper_close(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var left time.Time
		j := &sweeping{Journal: s.journal}
		j.sweep = func(ctx context.Context, _ int) (int, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			left = time.Now()
			return 0, ctx.Err()
		}
		e := s.openOn(j, checkout)
		done := make(chan struct{})
		go func() { defer close(done); e.RunSweeper(s.Context()) }()
		time.Sleep(10 * time.Second)
		require.NoError(s, e.Close(s.Context()))
		require.True(s, left.Equal(time.Now()), "Close did not wait, or the batch was not cut off")
		<-done
		require.Zero(s, s.events.count(saga.EventSweepError))
		j.since()
		e.RunSweeper(s.Context())
		limits, _ := j.since()
		require.Empty(s, limits, "the engine is closed")
	})
}
