package pgkit_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// panics sends p, and returns the panic of its goroutine.
func (b *bench) panics(ctx context.Context, p put) <-chan any {
	crash := make(chan any, 1)
	go func() {
		defer func() { crash <- recover() }()
		_, _, _ = b.puts.Do(ctx, p)
	}()
	return crash
}

// Code around the combiner that panics makes its leader panic, strands nobody and
// keeps no connection.
func TestCombiner_panicMakingStatement(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{})
	release := b.hold(t)
	leaders := b.acquires.Load()
	crash := b.panics(t.Context(), put{1, crashes})
	until(t, "it leads", func() bool { return b.acquires.Load() > leaders })
	follower := b.put(t.Context(), put{2, 0})
	until(t, "another waits", func() bool { return b.combiner.Queued() == 1 })
	release()
	require.Equal(t, "no statement for this", <-crash)
	require.NoError(t, (<-follower).err, "it was sent alone")
	require.NoError(t, b.combiner.Close(t.Context()))
	require.Zero(t, b.pool.Stat().AcquiredConns())
}

type tracer struct{ crash bool }

func (c *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (c *tracer) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if data.CommandTag.Insert() && c.crash {
		panic("tracer")
	}
}

func TestCombiner_panicUnderWay(t *testing.T) {
	t.Parallel()
	c := &tracer{crash: true}
	b := newBench(t, 1, pgkit.CombinerConfig{}, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = c })
	require.Contains(t, fmt.Sprint(<-b.panics(t.Context(), put{1, 0})), "tracer")
	c.crash = false
	_, ok, err := b.puts.Do(t.Context(), put{2, 0})
	require.NoError(t, err, "on a new connection")
	require.True(t, ok)
	require.NoError(t, b.combiner.Close(t.Context()))
}

// An answer that cannot be read says nothing about the write.
func TestCombiner_strangeAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{})
	release := b.hold(t)
	done := b.queue(t.Context(), t, put{1, 0}, put{2, strange})
	release()
	require.ErrorIs(t, (<-done[0]).err, pgkit.ErrFateUnknown)
	require.ErrorIs(t, (<-done[1]).err, pgkit.ErrFateUnknown)
	_, ok, err := b.puts.Do(t.Context(), put{3, 0})
	require.NoError(t, err)
	require.True(t, ok)
}
