package pgkit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A caller can leave at each point. It gets the known fate of its own write, and the others do not
// notice.
func TestCombiner_callerLeaves(t *testing.T) {
	t.Parallel()
	t.Run("before it comes", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 1, pgkit.CombinerConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := b.puts.Do(ctx, put{1, 0})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
		n, _ := b.count(t)
		require.Zero(t, n)
	})
	for _, tt := range []struct {
		name string
		who  int // of those who wait for a connection; 0 leads
	}{{"leading, without a connection", 0}, {"next to lead", 1}, {"in the queue", 5}, {"last in the queue", 8}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, pgkit.CombinerConfig{})
			release := b.hold(t)
			ctx, cancel := context.WithCancel(t.Context())
			all := puts(9)
			done := make([]<-chan given, len(all))
			for i, p := range all {
				who := t.Context()
				if i == tt.who {
					who = ctx
				}
				leaders := b.acquires.Load()
				done[i] = b.put(who, p)
				until(t, "it waits", func() bool { return b.combiner.Queued() == i && (i > 0 || b.acquires.Load() > leaders) })
			}
			cancel()
			got := <-done[tt.who]
			require.ErrorIs(t, got.err, context.Canceled)
			require.NotErrorIs(t, got.err, pgkit.ErrFateUnknown, "nothing was sent")
			release()
			for i, d := range done {
				if i != tt.who {
					require.NoError(t, (<-d).err)
				}
			}
			n, commits := b.count(t)
			require.Equal(t, 8, n, "what was left is never sent")
			require.Equal(t, 1, commits)
		})
	}
}

// No caller can take a write back once it is sent.
func TestCombiner_callerLeavesFlush(t *testing.T) {
	t.Parallel()
	hungUp := errors.New("hung up")
	for _, tt := range []struct {
		name     string
		leaves   func(i int) bool
		detached int
	}{
		{"the leader", func(i int) bool { return i == 0 }, 0},
		{"another", func(i int) bool { return i == 4 }, 0},
		{"all but one", func(i int) bool { return i != 4 }, 0},
		{"all", func(int) bool { return true }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 4, pgkit.CombinerConfig{MaxFlushes: 1})
			unblock := b.block(t, 1)
			release := b.hold(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			all := puts(9)
			done := make([]<-chan given, len(all))
			for i, p := range all {
				who := t.Context()
				if tt.leaves(i) {
					who = ctx
				}
				leaders := b.acquires.Load()
				done[i] = b.put(who, p)
				until(t, "it waits", func() bool { return b.combiner.Queued() == i && (i > 0 || b.acquires.Load() > leaders) })
			}
			release()
			b.blocked(t)
			cancel(hungUp)
			for i, d := range done {
				if tt.leaves(i) {
					err := (<-d).err
					require.ErrorIs(t, err, pgkit.ErrFateUnknown)
					require.ErrorIs(t, err, hungUp)
				}
			}
			require.Equal(t, tt.detached, b.writer.Detached())
			unblock()
			for i, d := range done {
				if !tt.leaves(i) {
					require.NoError(t, (<-d).err)
				}
			}
			until(t, "all is written", func() bool { n, _ := b.count(t); return n == 9 })
			until(t, "nothing is detached", func() bool { return b.writer.Detached() == 0 })
		})
	}
}
