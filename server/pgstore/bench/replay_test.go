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
	l := new(lab)
	t.Cleanup(func() { require.NoError(t, l.close()) })
	on, err := l.postgres(t.Context())
	require.NoError(t, err)
	db, err := on.database(t.Context(), script("create table written (n int)"))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.drop()) }()
	d := &duplicates{database: db}
	for _, tt := range []struct {
		name, statement string
		writes          bool
	}{
		{"reads", "select from written", false},
		{"writes", "insert into written values (1)", true},
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
	l := new(lab)
	t.Cleanup(func() { require.NoError(t, l.close()) })
	figures, err := measureReplay(t.Context(), l, mini)
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
