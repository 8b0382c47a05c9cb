package saga_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// hanging returns a function that ignores its ctx, and the function that lets it return.
func (s *stage) hanging() (hang func(context.Context, saga.Call[order]) (nothing, error), release func()) {
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	s.Cleanup(release)
	return func(context.Context, saga.Call[order]) (nothing, error) {
		<-held
		return nothing{}, nil
	}, release
}

// A function that does not return is given up at its deadline. The saga is undone, or stuck, and says so.
func TestHung_function(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]bool{"alone": false, "beside a step that fails": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(s *stage) {
				hang, _ := s.hanging()
				d := saga.MustDefine("hung", 1, func(b *saga.Builder[order, nothing]) {
					b.Timeout(10 * time.Minute)
					held := saga.Step(b, reserve, b.Input()).Undo(release)
					saga.StepFunc(b, "a.hang", b.Input(), hang).AttemptTimeout(time.Minute).Timeout(5 * time.Minute).ReadOnly().After(held)
					if failing {
						saga.StepFunc(b, "b.fail", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
							return nothing{}, saga.Rejected(errors.New("no"))
						}).ReadOnly().After(held)
					}
				})
				metrics := saga.NewMetrics()
				e := s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}, Observer: measured{s.events, metrics}})
				begun := time.Now()
				_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
				require.ErrorIs(s, err, saga.ErrCompensated)
				require.Less(s, time.Since(begun), 20*time.Minute)
				s.wantEffects("inventory.reserve", 1, 1)
				hung := s.events.first(saga.EventHung)
				require.Equal(s, "a.hang", hung.Step)
				require.Error(s, hung.Err)
				require.Positive(s, metrics.Snapshot().Hung)
			})
		})
	}
}

// The undo of a function that has not returned is not begun. The saga is stuck on it, and the steps beside it are
// undone. Retry helps once the function has returned, or in another process.
func TestHung_itsUndoWaits(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{true, false} {
		inBubble(t, func(s *stage) {
			hang, free := s.hanging()
			var runs, undone atomic.Int32
			define := func(fn func(context.Context, saga.Call[order]) (nothing, error)) *saga.Definition[order, nothing] {
				return saga.MustDefine("waits", 1, func(b *saga.Builder[order, nothing]) {
					saga.Step(b, reserve, b.Input()).Undo(release)
					saga.StepFunc(b, "a.hang", b.Input(), fn).UndoFunc("a.undo", func(context.Context, saga.UndoCall[order, nothing]) error {
						undone.Add(1)
						return nil
					}).AttemptTimeout(time.Minute).Retry(saga.RetryPolicy{Attempts: 2})
				})
			}
			d := define(func(ctx context.Context, c saga.Call[order]) (nothing, error) {
				runs.Add(1)
				return hang(ctx, c)
			})
			told := make(chan journal.Record, 10)
			e := s.openWith(s.journal, saga.Config{
				Definitions: []saga.AnyDefinition{d}, OnStuck: func(_ context.Context, r journal.Record) { told <- r },
			})
			_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrStuck)
			require.Equal(s, "a.hang", (<-told).StuckOn.Step)
			s.wantEffects("inventory.reserve", 1, 1)
			require.EqualValues(s, 1, runs.Load())
			require.Zero(s, undone.Load())

			_, err = e.Retry(s.Context(), s.id("k"), someone)
			require.NoError(s, err)
			_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrStuck, "it has not returned")
			require.Zero(s, undone.Load())

			if elsewhere {
				require.NoError(s, e.Close(s.Context()), "it waits for no function that was given up")
				d = define(func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil })
				e = s.openWith(s.journal, saga.Config{Definitions: []saga.AnyDefinition{d}})
			} else {
				free()
			}
			_, err = e.Retry(s.Context(), s.id("k"), someone)
			require.NoError(s, err)
			_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrCompensated)
			require.EqualValues(s, 1, undone.Load(), "by its own word, or undone")
		})
	}
}

// A saga past its pivot waits for the function that hangs, and goes on when it returns.
func TestHung_returnsInTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		hang, free := s.hanging()
		var runs atomic.Int32
		d := saga.MustDefine("late", 1, func(b *saga.Builder[order, nothing]) {
			sent := saga.Step(b, reserve, b.Input()).Pivot()
			saga.StepFunc(b, "a.hang", b.Input(), func(ctx context.Context, c saga.Call[order]) (nothing, error) {
				runs.Add(1)
				return hang(ctx, c)
			}).AttemptTimeout(time.Minute).Retriable().After(sent)
		})
		e := s.open(d)
		time.AfterFunc(time.Hour, free)
		begun := time.Now()
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.NoError(s, err)
		require.Less(s, time.Since(begun), 2*time.Hour)
		require.LessOrEqual(s, runs.Load(), int32(2))
		require.NotZero(s, s.events.count(saga.EventHung))
	})
}

// An undo that hangs does not keep the others from their turn.
func TestHung_undo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		hang, _ := s.hanging()
		d := saga.MustDefine("undoes", 1, func(b *saga.Builder[order, nothing]) {
			held := saga.Step(b, reserve, b.Input()).Undo(release)
			a := saga.StepFunc(b, "a.do", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) { return nothing{}, nil }).
				UndoFunc("a.undo", func(ctx context.Context, _ saga.UndoCall[order, nothing]) error {
					_, err := hang(ctx, saga.Call[order]{})
					return err
				}).AttemptTimeout(time.Minute)
			saga.StepFunc(b, "z.fail", b.Input(), func(context.Context, saga.Call[order]) (nothing, error) {
				return nothing{}, saga.Rejected(errors.New("no"))
			}).ReadOnly().After(held, a)
		})
		e := s.open(d)
		_, err := d.Run(s.Context(), e, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrStuck)
		s.wantEffects("inventory.reserve", 1, 1)
		on := s.read("k").StuckOn
		require.Equal(s, "a.do", on.Step)
		require.True(s, on.Undo)
		require.Equal(s, retry.Unknown, on.Outcome)
	})
}
