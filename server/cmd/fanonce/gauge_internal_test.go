package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGauge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		g         gauge
		width     int
		line, bar string
	}{
		{
			"half", gauge{"sweep of keys", 5000, 10_000, false, 10 * time.Second}, 79,
			"sweep of keys: 5,000 of 10,000 (50%), 500/s, 10s left",
			"sweep of keys  [===========>           ]  50%  5,000 of 10,000  500/s  10s left",
		},
		{
			"estimate", gauge{"sweep", 1, 3, true, 2 * time.Second}, 79,
			"sweep: 1 of about 3 (33%), 0.5/s, 4s left",
			"sweep  [===========>                       ]  33%  1 of about 3  0.5/s  4s left",
		},
		{
			"more than estimated", gauge{"sweep", 1_234_567, 3, true, 1000 * time.Second}, 79,
			"sweep: 1,234,567, 1,234/s, for 16m40s", "sweep  1,234,567  1,234/s  for 16m40s",
		},
		{
			"not begun", gauge{"resolve", 0, 7, false, 3 * time.Second}, 79,
			"resolve: 0 of 7 (0%), for 3s", "resolve  [>                                       ]  0%  0 of 7  for 3s",
		},
		{
			"full", gauge{"resolve", 7, 7, false, time.Second}, 79,
			"resolve: 7 of 7 (100%), 7.0/s, 0s left", "resolve  [======================================]  100%  7 of 7  7.0/s  0s left",
		},
		{"no count", gauge{"migrating keys", 0, 0, false, time.Minute}, 79, "migrating keys: for 1m0s", "migrating keys  for 1m0s"},
		{"no room for the bar", gauge{"resolve", 5, 10, false, time.Second}, 45, "", "resolve  50%  5 of 10  5.0/s  1s left"},
		{"no room for the time", gauge{"resolve", 5, 10, false, time.Second}, 30, "", "resolve  50%  5 of 10  5.0/s"},
		{"no room", gauge{"resolve", 5, 10, false, time.Second}, 5, "", "resol"},
		{"no terminal", gauge{"resolve", 5, 10, false, time.Second}, -1, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.g.bar(tt.width, false)
			require.Equal(t, tt.bar, got)
			require.LessOrEqual(t, len(got), max(0, tt.width))
			if tt.line != "" {
				require.Equal(t, tt.line, tt.g.line())
			}
			plain := strings.NewReplacer("\x1b[32m", "", "\x1b[0m", "").Replace(tt.g.bar(tt.width, true))
			require.Equal(t, got, plain, "colour changes the text")
		})
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 12345678: "12,345,678"} {
		require.Equal(t, want, thousands(n))
	}
}
