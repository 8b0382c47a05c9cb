package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
)

// A run that ends before it is noted that somebody waits costs nobody a
// notification, and is not what the figure is about.
func TestWaitedKeys_noted(t *testing.T) {
	t.Parallel()
	on := newPostgres(t)
	for _, tt := range []struct {
		name string
		work time.Duration
		want string
	}{
		{"long enough", 4 * waitedWork, ""},
		{"too short", 0, "are noted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := openDatabase(t, on, pgstore.Migrate)
			p, err := openPair(t.Context(), db, true)
			require.NoError(t, err)
			defer func() { require.NoError(t, p.close(t.Context())) }()
			w := &waitedKeys{pair: p, waited: true, work: tt.work}
			require.NoError(t, w.listen(t.Context(), db))
			done, err := w.turn(t.Context(), 500*time.Millisecond)
			require.NoError(t, err)
			share, err := w.noted(t.Context(), db, done.operations)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.InDelta(t, 1, share, 0.3)
		})
	}
}
