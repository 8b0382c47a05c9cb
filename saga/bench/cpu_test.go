package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		text string
		want time.Duration // negative: an error
	}{
		{"usual", "7 (postgres) S 1 7 7 0 -1 4194624 1 2 3 4 250 50 0 0 20 0", 3 * time.Second},
		{"a name like fields", "7 (a) 1 2 (b) S 1 7 7 0 -1 4194624 1 2 3 4 5 6 0 0 20 0", 110 * time.Millisecond},
		{"cut off", "7 (postgres) S 1 7 7 0 -1 4194624 1 2 3 4 250", -1},
		{"no number", "7 (postgres) S 1 7 7 0 -1 4194624 1 2 3 4 x 50 0 0 20 0", -1},
		{"no second number", "7 (postgres) S 1 7 7 0 -1 4194624 1 2 3 4 50 x 0 0 20 0", -1},
		{"empty", "", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStat("/proc/7/stat", tt.text)
			if tt.want < 0 {
				require.ErrorContains(t, err, "/proc/7/stat")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestProcessorTime_gone(t *testing.T) {
	t.Parallel()
	got, err := processorTime("no-such-process")
	require.NoError(t, err)
	require.Zero(t, got)
}
