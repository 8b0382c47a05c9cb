package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		what        string
		done, total int64
		elapsed     time.Duration
		want        string
	}{
		{"half", "resolve", 5000, 10_000, 10 * time.Second, "resolve: 5000 of 10000 (50%), 500.0/s, 10s left"},
		{"no total", "sweep of keys", 5, 0, 10 * time.Second, "sweep of keys: 5, 0.5/s, for 10s"},
		{"not begun", "resolve", 0, 7, 3 * time.Second, "resolve: 0 of 7 (0%), for 3s"},
		{"full", "resolve", 7, 7, time.Second, "resolve: 7 of 7 (100%), 7.0/s, 0s left"},
		{"no count", "migrating keys", 0, 0, time.Minute, "migrating keys: for 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, progressLine(tt.what, tt.done, tt.total, tt.elapsed))
		})
	}
}
