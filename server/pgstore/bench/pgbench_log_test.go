package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseLog(t *testing.T) {
	t.Parallel()
	waits, err := parseLog("0 1 512 0 1700000000 17\n0 2 1024 0 1700000000 541\n")
	require.NoError(t, err)
	require.Equal(t, []time.Duration{512 * time.Microsecond, 1024 * time.Microsecond}, waits)
	for _, text := range []string{"0 1 512 0 1700000000", "0 1 failed 0 1700000000 17\n"} {
		_, err := parseLog(text)
		require.Error(t, err, text)
	}
}

// Each turn has its own transactions, all of them, and ends with pgbench.
func TestLoggedVariant(t *testing.T) {
	t.Parallel()
	v, err := loggedVariant(t.Context(), newPostgres(t), bareCommits, twoCommits)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.close()) }()
	operations := 0
	for range 2 {
		w, err := v.turn(t.Context(), time.Millisecond)
		require.NoError(t, err)
		require.Positive(t, w.operations)
		require.Len(t, w.waits, w.operations)
		require.GreaterOrEqual(t, w.took, 500*time.Millisecond, "pgbench is never idle")
		operations += w.operations
	}
	require.NoError(t, v.check(t.Context(), operations))
}
