package pgkit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// If a kind knows another statement, its flush is sent together once more. The answers of the first
// statement are forgotten: it was rolled back.
func TestCombiner_again(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mended bool // by the other statement
	}{{"it succeeds", true}, {"it fails as well", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, pgkit.CombinerConfig{})
			failures := 0
			taken := make(chan *pgxpool.Conn, 1)
			late := pgkit.NewBatchKind(b.combiner, pgkit.BatchKindConfig[int, bool]{ // its statement follows that of puts
				One:     func(id int) pgkit.Statement { return pgkit.Statement{SQL: "select $1 > 0", Args: []any{id}} },
				ScanOne: pgx.RowTo[bool],
				Many: func(ids []int) (pgkit.Statement, func(pgx.CollectableRow) (int, bool, error)) {
					sql := "select 1 / n, n from unnest($1::int[]) as n"
					if failures > 0 && tt.mended {
						sql = "select true, n from unnest($1::int[]) as n"
					}
					numbers := make([]int, len(ids))
					for i := range numbers {
						numbers[i] = i
					}
					return pgkit.Statement{SQL: sql, Args: []any{numbers}}, func(row pgx.CollectableRow) (int, bool, error) {
						var n int
						return n, true, row.Scan(nil, &n)
					}
				},
				Again: func(err error) bool {
					var pgErr *pgconn.PgError
					if !errors.As(err, &pgErr) || pgErr.Code != "22012" {
						t.Errorf("told of %v", err) // not by require, which would end the flush's goroutine
					}
					if failures++; failures == 1 {
						// The writes come back one by one. On a slow machine each would find nobody before it, and go
						// alone: somebody else takes the connection until several of them wait.
						go func() {
							conn, err := b.pool.Acquire(context.WithoutCancel(t.Context()))
							if err != nil {
								t.Error(err)
							}
							taken <- conn
						}()
					}
					_, err = b.look.Exec(t.Context(), "insert into t values (5, 0, 'meanwhile') on conflict do nothing")
					return err == nil && failures < 10
				},
			})
			release := b.hold(t)
			done := b.queue(t.Context(), t, puts(9)...)
			dones := make(chan error, 2)
			for id := range 2 {
				go func() {
					_, ok, err := late.Do(t.Context(), id+1)
					if !ok {
						err = errors.Join(err, errors.New("no answer"))
					}
					dones <- err
				}()
			}
			until(t, "all wait", func() bool { return b.combiner.Queued() == 10 })
			release()
			conn := <-taken
			require.NotNil(t, conn)
			until(t, "several wait again", func() bool { return b.combiner.Queued() >= 4 })
			conn.Release()
			for i, p := range puts(9) {
				got := <-done[i]
				require.NoError(t, got.err)
				require.Equal(t, p.id != 5, got.ok, "id %d: %v", p.id, got)
			}
			for range 2 {
				require.NoError(t, <-dones)
			}
			require.Positive(t, failures)
			require.LessOrEqual(t, failures, 3, "each goes once more, and then alone")
			if tt.mended {
				require.Positive(t, queryRow[int](t, b.look, "select count(*) from t where sent like 'together%'"))
			}
			n, _ := b.count(t)
			require.Equal(t, 9, n)
		})
	}
}

// The write of a caller that leaves before the flush goes again does not go with it.
func TestCombiner_again_left(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{})
	ctx, leave := context.WithCancel(t.Context())
	late := pgkit.NewBatchKind(b.combiner, failing(func(error) bool { leave(); return true }))
	release := b.hold(t)
	done := b.queue(t.Context(), t, puts(3)...)
	left := b.put(ctx, put{9, 0})
	lates := make(chan error, 1)
	go func() { _, _, err := late.Do(t.Context(), 1); lates <- err }()
	until(t, "all wait", func() bool { return b.combiner.Queued() == 4 })
	release()
	require.ErrorIs(t, (<-left).err, context.Canceled)
	require.NoError(t, <-lates)
	for _, d := range done {
		got := <-d
		require.NoError(t, got.err)
		require.True(t, got.ok)
	}
	n, _ := b.count(t)
	require.Equal(t, 3, n)
}

// A write that was admitted once is not refused because others have come since.
func TestCombiner_again_fullQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{MaxQueued: 4})
	b.combiner.NeverStall()
	more := make(chan struct{})
	late := pgkit.NewBatchKind(b.combiner, failing(func(error) bool { <-more; return true }))
	release := b.hold(t)
	done := b.queue(t.Context(), t, puts(4)...)
	lates := make(chan error, 1)
	go func() { _, _, err := late.Do(t.Context(), 1); lates <- err }()
	until(t, "all wait", func() bool { return b.combiner.Queued() == 4 })
	release()
	until(t, "they are sent", func() bool { return b.combiner.Queued() == 0 })
	for id := range 4 {
		done = append(done, b.put(t.Context(), put{100 + id, 0}))
	}
	until(t, "others wait", func() bool { return b.combiner.Queued() == 4 })
	close(more)
	require.NoError(t, <-lates)
	for _, d := range done {
		require.NoError(t, (<-d).err)
	}
}

// The leader gets a panic of Again, and no caller is stranded.
func TestCombiner_again_panics(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{})
	late := pgkit.NewBatchKind(b.combiner, failing(func(error) bool { panic("not again") }))
	release := b.hold(t)
	leaders := b.acquires.Load()
	crash := b.panics(t.Context(), put{1, 0})
	until(t, "it leads", func() bool { return b.acquires.Load() > leaders })
	follower := b.put(t.Context(), put{2, 0})
	lates := make(chan error, 1)
	go func() { _, _, err := late.Do(t.Context(), 1); lates <- err }()
	until(t, "others wait", func() bool { return b.combiner.Queued() == 2 })
	release()
	require.ErrorContains(t, (<-crash).(error), "not again")
	require.NoError(t, (<-follower).err)
	require.NoError(t, <-lates)
	require.NoError(t, b.combiner.Close(t.Context()))
}

// A panic of Many does not count as a failure of a flush.
func TestCombiner_again_notOfPanics(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{})
	asked := 0
	late := pgkit.NewBatchKind(b.combiner, failing(func(error) bool { asked++; return true }))
	release := b.hold(t)
	leaders := b.acquires.Load()
	crash := b.panics(t.Context(), put{1, crashes})
	until(t, "it leads", func() bool { return b.acquires.Load() > leaders })
	lates := make(chan error, 1)
	go func() { _, _, err := late.Do(t.Context(), 1); lates <- err }()
	until(t, "another waits", func() bool { return b.combiner.Queued() == 1 })
	release()
	require.Equal(t, "no statement for this", <-crash)
	require.NoError(t, <-lates)
	require.Zero(t, asked)
}

// failing is a kind whose statement for several fails.
func failing(again func(error) bool) pgkit.BatchKindConfig[int, bool] {
	return pgkit.BatchKindConfig[int, bool]{
		Many: func([]int) (pgkit.Statement, func(pgx.CollectableRow) (int, bool, error)) {
			return pgkit.Statement{SQL: "select 1/0"}, nil
		},
		One:     func(int) pgkit.Statement { return pgkit.Statement{SQL: "select true"} },
		ScanOne: pgx.RowTo[bool],
		Again:   again,
	}
}
