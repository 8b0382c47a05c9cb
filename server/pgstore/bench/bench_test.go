package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mini is enough to see that each figure is measured, and that its counts check.
var mini = effort{
	rounds: 2, slices: 1, slice: 60 * time.Millisecond,
	connections: []int{4}, loops: 2_000,
	replayKeys: 2_000, waiters: 20,
	sweepRows: 3_000, sweepPairs: 1, sweepLength: 300 * time.Millisecond, sweepRate: 100,
	partitionRows: 2_000, contestedKeys: 200, contestants: 16, bigRows: 5_000,
}

// Each bench once, one after the other: together they would be short of the server's
// connections.
func TestBenches(t *testing.T) {
	t.Parallel()
	l := new(lab)
	t.Cleanup(func() { require.NoError(t, l.close()) })
	for _, b := range benches {
		t.Run(b.name, func(t *testing.T) {
			figures, err := b.measure(t.Context(), l, mini)
			if errors.Is(err, errNoRedis) {
				t.Skip(err)
			}
			require.NoError(t, err)
			require.NotEmpty(t, figures)
			for _, f := range figures {
				require.NotEmpty(t, f.Measures, f.Name)
				if strings.HasPrefix(f.Name, "… ") {
					continue
				}
				require.True(t, strings.HasPrefix(f.Name, b.name), "%s of bench %s", f.Name, b.name)
				require.NotEmpty(t, f.Prototype)
			}
		})
	}
	fast, err := l.postgres(t.Context())
	require.NoError(t, err)
	left := 0
	require.NoError(t, fast.look.QueryRow(t.Context(), "select count(*) from pg_database where datname like 'variant%'").Scan(&left))
	require.Zero(t, left, "databases that a bench left behind")
}
