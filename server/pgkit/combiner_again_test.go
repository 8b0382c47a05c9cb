package pgkit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgkit"
)

// A lane that knows another statement has its flush sent together once more. What the
// first one answered is forgotten: it was rolled back.
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
			late := pgkit.NewLane(b.combiner, pgkit.LaneConfig[int, bool]{ // its statement follows that of puts
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
					require.ErrorAs(t, err, &pgErr)
					require.Equal(t, "22012", pgErr.Code)
					failures++
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

// Who leaves while it is found out that the flush goes again does not go with it.
func TestCombiner_again_left(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{})
	ctx, leave := context.WithCancel(t.Context())
	late := pgkit.NewLane(b.combiner, pgkit.LaneConfig[int, bool]{
		Many: func([]int) (pgkit.Statement, func(pgx.CollectableRow) (int, bool, error)) {
			return pgkit.Statement{SQL: "select 1/0"}, nil
		},
		One:     func(int) pgkit.Statement { return pgkit.Statement{SQL: "select true"} },
		ScanOne: pgx.RowTo[bool],
		Again:   func(error) bool { leave(); return true },
	})
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
