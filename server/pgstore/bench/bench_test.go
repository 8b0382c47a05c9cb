package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mini is enough to see that each figure is measured, and that its counts check.
var mini = effort{
	rounds: 1, slices: 1, slice: 60 * time.Millisecond,
	connections: []int{4}, loops: 2_000,
	replayKeys: 2_000, waiters: 20, bigRows: 5_000,
}

// The test binary is the program that plays the roles.
func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// Each bench once, one after the other: together they would be short of the server's
// connections. Not parallel: it looks whether a process is left.
func TestBenches(t *testing.T) {
	skipWithoutCompiler(t)
	l := newLab(t) // which closes it where only some benches run
	for _, b := range benches {
		t.Run(b.name, func(t *testing.T) {
			figures, err := b.measure(t.Context(), l, mini)
			if errors.Is(err, errNoRedis) {
				t.Skip(err)
			}
			require.NoError(t, err)
			requireFigures(t, b.name, figures)
		})
	}
	t.Run("the slow disk is slow", func(t *testing.T) {
		for range 3 {
			start := time.Now()
			_, err := l.slow.look.Exec(t.Context(), "create table flushed_"+newKey().String()+" ()")
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(start), slowDiskDelay)
		}
	})
	t.Run("nothing is left", func(t *testing.T) {
		var databases int
		require.NoError(t, l.fast.look.QueryRow(t.Context(), "select count(*) from pg_database where datname like 'variant%'").Scan(&databases))
		require.Zero(t, databases)
		folders := []string{l.fast.socket, l.slow.socket, l.slowFolder}
		require.NoError(t, l.close())
		for _, folder := range folders {
			require.NoDirExists(t, folder)
		}
		all, err := readProcesses()
		require.NoError(t, err)
		for pid, p := range all {
			require.NotEqual(t, os.Getpid(), p.parent, "process %d", pid)
		}
	})
}

func requireFigures(t *testing.T, bench string, figures []figure) {
	t.Helper()
	judged := 0
	for _, f := range figures {
		require.NotEmpty(t, f.Measures, f.Name)
		f.Judge()
		if strings.HasPrefix(f.Name, "… ") {
			require.Empty(t, f.Verdict, "%s: what is told beside has no goal", f.Name)
			continue
		}
		require.True(t, strings.HasPrefix(f.Name, bench), "%s of bench %s", f.Name, bench)
		require.NotEmpty(t, f.Prototype, f.Name)
		require.NotEmpty(t, f.Verdict, f.Name)
		judged++
	}
	require.Positive(t, judged)
}
