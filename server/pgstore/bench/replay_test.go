package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// The writes of a turn are not hidden by the other turns, nor by a kind that does not write. The
// server's own writes count for no kind.
func TestDuplicates_written(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, newPostgres(t), someTable)
	counted, err := db.toCounted()
	require.NoError(t, err)
	repeats, err := counted.pool(t.Context(), 1)
	require.NoError(t, err)
	t.Cleanup(repeats.Close)
	d := &duplicates{database: counted}
	const read, insert, message = "select from it", "insert into it values (1)", "select pg_logical_emit_message(false, 'a', 'b')" // which has no transaction id
	for _, tt := range []struct {
		name       string
		by         *pgxpool.Pool
		statements []string // of each turn
		short      []string // measures
	}{
		{"reads", repeats, []string{read, read, read}, nil},
		{"writes", repeats, []string{insert, insert, insert}, []string{quietest, "their transaction ids", "bytes of WAL by their statements"}},
		{"writes in one turn", repeats, []string{read, insert, read}, []string{"their transaction ids", "bytes of WAL by their statements"}},
		{"writes in one turn, without a transaction id", repeats, []string{read, read, message}, []string{"bytes of WAL by their statements"}},
		{"somebody else writes in one turn", db.look, []string{message, read, read}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left := tt.statements
			w, err := d.measureWrites(t.Context(), mini, func(ctx context.Context, _ time.Duration) (work, error) {
				var statement string
				statement, left = left[0], left[1:]
				return work{operations: 1}, script(statement)(ctx, tt.by)
			})
			require.NoError(t, err)
			var short []string
			for _, m := range w.measures(counted, "repeats") {
				if m.Goal != nil && !m.Goal.Met(m.Value) {
					short = append(short, m.Name)
				}
			}
			require.Equal(t, tt.short, short)
		})
	}
}

const quietest = "WAL with nothing but repeats, in the quietest turn"

// Each kind of repeat is judged by itself.
func TestReplay_writes(t *testing.T) {
	t.Parallel()
	figures, err := measureReplay(t.Context(), newLab(t), mini)
	require.NoError(t, err)
	writes := slices.IndexFunc(figures, func(f figure) bool { return f.Name == "replay, what it writes" })
	require.GreaterOrEqual(t, writes, 0)
	var judged []string
	for _, m := range figures[writes].Measures {
		if m.Goal == nil { // statements
			continue
		}
		require.True(t, m.Goal.Met(m.Value), "%s: %g", m.Name, m.Value)
		judged = append(judged, m.Name)
	}
	require.Equal(t, []string{
		"WAL with nothing but retries, in the quietest turn", "their transaction ids", "bytes of WAL by their statements",
		"WAL with nothing but duplicates, in the quietest turn", "their transaction ids", "bytes of WAL by their statements",
	}, judged)
}
