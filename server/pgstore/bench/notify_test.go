package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A run that ends before it is noted that somebody waits costs nobody a
// notification, and is not what the figure is about.
func TestWaitedKeys_noted(t *testing.T) {
	t.Parallel()
	db := openDatabase(t, newPostgres(t), migrateStore)
	p, err := openPair(t.Context(), db, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.close(t.Context())) }()
	w := &waitedKeys{pair: p, database: db, waited: true, work: 40 * waitedWork} // enough on a slow machine
	require.NoError(t, w.listen(t.Context()))
	operations := 0
	for operations < 20*waitedEvery { // in one turn a slow machine may not reach an awaited key
		done, err := w.turn(t.Context(), 500*time.Millisecond)
		require.NoError(t, err)
		operations += done.operations
	}
	share, err := w.countNoted(t.Context(), operations)
	require.NoError(t, err)
	require.InDelta(t, 1, share, 0.3)
	for _, wrong := range []int{operations / 2, 2 * operations} { // of the latter half would not be noted
		_, err = w.countNoted(t.Context(), wrong)
		require.ErrorContains(t, err, "are noted")
	}
}
