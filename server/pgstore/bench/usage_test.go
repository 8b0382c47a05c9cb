package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseProcess(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		text string
		want process // zero: an error
	}{
		{"usual", "7 (postgres) S 1 7 7 0 -1 4194624 1 2 3 4 250 50 30 20 20 0 0 0 0", process{1, 3500 * time.Millisecond}},
		{"a name like fields", "7 (a) 1 2 (b) S 3 7 7 0 -1 4194624 1 2 3 4 5 6 0 0 20 0 0 0 0", process{3, 110 * time.Millisecond}},
		{"cut off", "7 (postgres) S 1 7 7 0 -1 4194624 1 2 3 4 250", process{}},
		{"no number", "7 (postgres) S 1 7 7 0 -1 4194624 1 2 3 4 x 50 0 0 20 0 0 0 0", process{}},
		{"no parent", "7 (postgres) S ? 7 7 0 -1 4194624 1 2 3 4 1 50 0 0 20 0 0 0 0", process{}},
		{"empty", "", process{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pid, got, err := parseProcess(tt.text)
			require.Equal(t, tt.want == process{}, err != nil)
			if err == nil {
				require.Equal(t, 7, pid)
				require.Equal(t, tt.want, got)
			}
		})
	}
}

func TestParseMachine(t *testing.T) {
	t.Parallel()
	busy, all, err := parseMachine("cpu  100 10 50 800 40 5 5 90 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	require.NoError(t, err)
	require.Equal(t, 2600*time.Millisecond, busy)
	require.Equal(t, 11*time.Second, all)
	for _, text := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 x 5 6 7 8"} {
		_, _, err := parseMachine(text)
		require.Error(t, err, text)
	}
}

func TestProcesses_tree(t *testing.T) {
	t.Parallel()
	all := processes{1: {0, time.Hour}, 7: {1, time.Second}, 8: {7, 2 * time.Second}, 9: {8, 4 * time.Second}, 10: {1, time.Minute}}
	require.Equal(t, 7*time.Second, all.tree(7))
	require.Zero(t, all.tree(11))
}

func TestUsage_others(t *testing.T) {
	t.Parallel()
	u := usage{ours: time.Second, busy: 2 * time.Second, all: 4 * time.Second}
	require.InDelta(t, 25, u.since(usage{}).others(), 0)
	require.Zero(t, usage{}.others())
	require.Zero(t, usage{ours: 2 * time.Second, busy: time.Second, all: 4 * time.Second}.others(), "ticks are coarse")
}

func TestUsage_since(t *testing.T) {
	t.Parallel()
	before := usage{self: time.Second, ours: 2 * time.Second, busy: 3 * time.Second, all: 4 * time.Second, reading: 100 * time.Millisecond}
	after := usage{self: 2 * time.Second, ours: 4 * time.Second, busy: 6 * time.Second, all: 9 * time.Second, reading: time.Hour}
	require.Equal(t, usage{self: 900 * time.Millisecond, ours: 1900 * time.Millisecond, busy: 3 * time.Second, all: 5 * time.Second}, after.since(before))
	require.Zero(t, before.since(before).ours, "never less than nothing: ticks are coarse")
}

func TestReadUsage(t *testing.T) {
	t.Parallel()
	u, err := readUsage()
	require.NoError(t, err)
	require.Positive(t, u.self)
	require.Positive(t, u.busy)
	require.Greater(t, u.all, u.busy)
	require.GreaterOrEqual(t, load(), 0.0)
}
