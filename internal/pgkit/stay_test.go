package pgkit_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A caller that stays learns the fate of a write that was sent, although ctx ended meanwhile.
// Before the write is sent it leaves as any caller does.
func TestStaying(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		pool, blocked, unblock := blockable(t)
		w := newWriter(t, pool, 0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := pgkit.Exec(pgkit.Staying(ctx), w, blocked)
			ended <- err
		}()
		until(t, "the write is under way", func() bool { return waiting(t, pool) })
		cancel()
		require.Zero(t, w.Detached())
		unblock()
		require.NoError(t, <-ended)
	})
	t.Run("without a connection", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 1, pgkit.CombinerConfig{})
		release := b.hold(t)
		defer release()
		ctx, cancel := context.WithCancel(t.Context())
		leads := b.queue(pgkit.Staying(ctx), t, put{1, 0})
		cancel()
		require.ErrorIs(t, (<-leads[0]).err, context.Canceled)
		_, err := pgkit.Do(pgkit.Staying(ctx), b.writer, func(context.Context, *pgx.Conn) (int, error) { return 0, nil })
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, pgkit.ErrFateUnknown)
	})
	t.Run("in a flush, and in the queue behind it", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 1, pgkit.CombinerConfig{})
		release := b.hold(t)
		unblock := b.block(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		staying := pgkit.Staying(ctx)
		leads := b.queue(staying, t, put{1, 0})
		follower := b.put(staying, put{2, 0})
		until(t, "it waits", func() bool { return b.combiner.Queued() == 1 })
		release()
		b.blocked(t)
		late := b.put(staying, put{3, 0}) // in the queue, or leading the next without a connection
		cancel()
		require.ErrorIs(t, (<-late).err, context.Canceled, "it was not sent")
		unblock()
		require.NoError(t, (<-leads[0]).err)
		require.NoError(t, (<-follower).err)
		puts, commits := b.count(t)
		require.Equal(t, [2]int{2, 1}, [2]int{puts, commits}, "rows and commits")
	})
}
