package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A kind that writes is not hidden by one that does not.
func TestDuplicates_written(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, newPostgres(t), someTable)
	d := &duplicates{database: db}
	for _, tt := range []struct {
		name, statement string
		writes          bool
	}{
		{"reads", "select from it", false},
		{"writes", "insert into it values (1)", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := d.written(t.Context(), mini, func(ctx context.Context, _ time.Duration) (work, error) {
				return work{operations: 1}, script(tt.statement)(ctx, db.look)
			})
			require.NoError(t, err)
			require.Equal(t, tt.writes, spreadOf(w.wal).median > 0)
			require.Equal(t, tt.writes, spreadOf(w.transactions).median > 0)
		})
	}
}

// Each kind of repeat is judged by itself.
func TestReplay_writes(t *testing.T) {
	t.Parallel()
	figures, err := measureReplay(t.Context(), newLab(t), mini)
	require.NoError(t, err)
	var judged []string
	for _, m := range figures[1].Measures {
		if m.Goal == nil { // statements
			continue
		}
		require.True(t, m.Goal.met(m.Value), "%s: %g", m.Name, m.Value)
		judged = append(judged, m.Name)
	}
	require.Equal(t, []string{"WAL of retries", "their transaction ids", "WAL of duplicates", "their transaction ids"}, judged)
}
