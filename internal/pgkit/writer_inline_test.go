package pgkit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A caller that cannot leave writes by itself: what panics there can be recovered, and
// the connection is given back all the same.
func TestWriter_callerThatCannotLeave(t *testing.T) {
	t.Parallel()
	pool := newPool(t, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	w := newWriter(t, pool, 0)
	ctx := context.WithoutCancel(t.Context())
	require.PanicsWithValue(t, "tracer", func() {
		_, _ = pgkit.Do(ctx, w, func(context.Context, *pgx.Conn) (int, error) { panic("tracer") })
	})
	_, ok, err := pgkit.Row(ctx, w, pgkit.Statement{SQL: "select 1"}, pgx.RowTo[int])
	require.NoError(t, err, "on a new connection")
	require.True(t, ok)
	require.NoError(t, w.Close(t.Context()), "nothing is under way")
}

func TestWriter_Close_breaksCallerThatCannotLeave(t *testing.T) {
	t.Parallel()
	pool, blocked, _ := blockable(t)
	w := newWriter(t, pool, 0)
	failed := make(chan error, 1)
	go func() {
		_, err := pgkit.Exec(context.WithoutCancel(t.Context()), w, blocked)
		failed <- err
	}()
	until(t, "the write is under way", func() bool { return waiting(t, pool) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, w.Close(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, <-failed, pgkit.ErrFateUnknown)
}

// Those who share a flush with it can leave all the same.
func TestCombiner_leaderThatCannotLeave(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{})
	release := b.hold(t)
	unblock := b.block(t, 1)
	leads := b.queue(context.WithoutCancel(t.Context()), t, put{1, 0})
	ctx, cancel := context.WithCancel(t.Context())
	follower := b.put(ctx, put{2, 0})
	until(t, "it waits", func() bool { return b.combiner.Queued() == 1 })
	release()
	b.blocked(t)
	cancel()
	require.ErrorIs(t, (<-follower).err, pgkit.ErrFateUnknown)
	require.Equal(t, 0, b.writer.Detached(), "its leader is still there")
	unblock()
	require.NoError(t, (<-leads[0]).err)
	puts, commits := b.count(t)
	require.Equal(t, [2]int{2, 1}, [2]int{puts, commits}, "rows and commits")
}

func TestCombiner_panicOfLeaderThatCannotLeave(t *testing.T) {
	t.Parallel()
	c := &tracer{crash: true}
	b := newBench(t, 1, pgkit.CombinerConfig{}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = c })
	require.Contains(t, fmt.Sprint(<-b.panics(context.WithoutCancel(t.Context()), put{1, 0})), "tracer")
	c.crash = false
	_, ok, err := b.puts.Do(t.Context(), put{2, 0})
	require.NoError(t, err, "on a new connection")
	require.True(t, ok)
	require.NoError(t, b.combiner.Close(t.Context()))
}
