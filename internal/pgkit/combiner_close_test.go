package pgkit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

func TestCombiner_Close(t *testing.T) {
	t.Parallel()
	t.Run("sends what is queued", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 1, pgkit.CombinerConfig{})
		release := b.hold(t)
		done := b.queue(t.Context(), t, puts(9)...)
		closed := make(chan error, 2)
		for range cap(closed) {
			go func() { closed <- b.combiner.Close(t.Context()) }()
		}
		until(t, "it takes no more", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, _, err := b.puts.Do(ctx, put{100, 0})
			return errors.Is(err, pgkit.ErrClosed)
		})
		require.Empty(t, closed)
		release()
		for _, d := range done {
			require.NoError(t, (<-d).err)
		}
		require.NoError(t, <-closed)
		require.NoError(t, <-closed)
		require.NoError(t, b.combiner.Close(t.Context()), "closed already")
	})
	t.Run("refuses what is queued when its time is up", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 1, pgkit.CombinerConfig{})
		release := b.hold(t)
		done := b.queue(t.Context(), t, puts(9)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, b.combiner.Close(ctx), context.DeadlineExceeded)
		for _, d := range done[1:] {
			require.ErrorIs(t, (<-d).err, pgkit.ErrClosed)
		}
		require.NoError(t, b.writer.Close(t.Context()))
		release()
		require.ErrorIs(t, (<-done[0]).err, pgkit.ErrClosed, "its leader waited for a connection")
		puts, _ := b.count(t)
		require.Zero(t, puts)
	})
}
