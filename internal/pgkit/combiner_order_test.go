package pgkit_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// echo is a statement that answers each put with twice its value, and tells for which
// of them by its place.
func echo(puts []put) (pgkit.Statement, func(pgx.CollectableRow) (int, int, error)) {
	values := make([]int, len(puts))
	for i, p := range puts {
		values[i] = p.value
	}
	st := pgkit.Statement{
		SQL:  "select 2 * value, n from unnest($1::int[], $2::int[]) as p (value, n)",
		Args: []any{values, pgkit.Numbers(len(puts))},
	}
	return st, func(row pgx.CollectableRow) (n, answer int, err error) {
		err = row.Scan(&answer, &n)
		return n - 1, answer, err
	}
}

// Two flushes that need the same rows in opposite orders would wait for each other in a circle. So
// the writes of one statement are in the kind's order, whatever order they came in. Equal writes
// stay in the order in which they came, and each caller gets its own answer.
func TestCombiner_order(t *testing.T) {
	t.Parallel()
	byID := func(a, b put) int { return cmp.Compare(a.id, b.id) }
	var came []put
	for i := range 40 { // so many that a sort which may swap equals does
		came = append(came, put{id: i * 7 % 4, value: i})
	}
	sorted := slices.Clone(came)
	slices.SortStableFunc(sorted, byID)
	require.NotEqual(t, came, sorted)
	for _, tt := range []struct {
		name    string
		compare func(a, b put) int
		want    []put
	}{{"compared", byID, sorted}, {"not compared", nil, came}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 1, pgkit.CombinerConfig{})
			var sent [][]put
			b.puts = pgkit.NewBatchKind(b.combiner, pgkit.BatchKindConfig[put, int]{
				Many: func(puts []put) (pgkit.Statement, func(pgx.CollectableRow) (int, int, error)) {
					sent = append(sent, slices.Clone(puts))
					return echo(puts)
				},
				Compare: tt.compare,
			})
			release := b.hold(t)
			done := b.queue(t.Context(), t, came...)
			release()
			for i, p := range came {
				got := <-done[i]
				require.NoError(t, got.err)
				require.Equal(t, 2*p.value, got.value, "the answer to %+v", p)
			}
			require.Equal(t, [][]put{tt.want}, sent)
		})
	}
}
