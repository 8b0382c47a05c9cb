package pgkit_test

import (
	"cmp"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/pgkit"
)

// A flush has the rows of one node, and a statement for each shard in the order of the shards. A row that
// is alone in its shard has the statement for one.
func TestCombiner_place(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1, pgkit.CombinerConfig{})
	var statements [][]int // their IDs
	b.puts = pgkit.NewBatchKind(b.combiner, pgkit.BatchKindConfig[put, int]{
		One: func(p put) pgkit.Statement {
			statements = append(statements, []int{p.id})
			return pgkit.Statement{SQL: "insert into t values ($1, $2, 'alone') returning 2 * value", Args: []any{p.id, p.value}}
		},
		ScanOne: pgx.RowTo[int],
		Many: func(puts []put) (pgkit.Statement, func(pgx.CollectableRow) (int, int, error)) {
			var ids []int
			for _, p := range puts {
				ids = append(ids, p.id)
			}
			statements = append(statements, ids)
			return putMany(puts)
		},
		Compare: func(a, b put) int { return cmp.Compare(a.id, b.id) },
		// IDs below 100 are on node 1, and each node has two shards.
		Place: func(p put) pgkit.Place { return pgkit.Place{Node: 1 + p.id/100, Shard: 1 + p.id/50} },
	})
	release := b.hold(t)
	ids := []int{7, 140, 60, 3, 101, 5, 160}
	puts := make([]put, len(ids))
	for i, id := range ids {
		puts[i] = put{id: id, value: id}
	}
	done := b.queue(t.Context(), t, puts...)
	release()
	for i, id := range ids {
		got := <-done[i]
		require.NoError(t, got.err)
		require.Equal(t, 2*id, got.value, "the answer to %d", id)
	}
	require.Equal(t, [][]int{{3, 5, 7}, {60}, {101, 140}, {160}}, statements)
	require.Equal(t, 1, queryRow[int](t, b.look, "select count(distinct xmin::text) from t where id < 100"))
	require.Equal(t, 2, queryRow[int](t, b.look, "select count(distinct xmin::text) from t"))
}
