package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/internal/benchkit"
)

func TestRun_badFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-run", "nosuch"}, {"-profiles", "/no/such/folder"}, {"-profiles", "main.go"}} {
		var stderr bytes.Buffer
		require.Equal(t, benchkit.ExitNoVerdict, run(t.Context(), args, io.Discard, &stderr), "%q", args)
		require.NotEmpty(t, stderr.String())
	}
	require.Equal(t, benchkit.ExitOK, run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}

// Not parallel: it sets the environment.
func TestRun_withoutRedis(t *testing.T) {
	t.Setenv("PATH", "")
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"-run", "redis-always|combined256", "-short"}, benchkit.ExitOK},
		{[]string{"-run", "redis-always|combined256"}, benchkit.ExitShort},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, tt.want, run(t.Context(), tt.args, &stdout, &stderr), "%q", tt.args)
		for _, name := range []string{"redis-always", "combined256"} {
			require.Contains(t, stdout.String(), "Left out: "+name)
			require.Contains(t, stderr.String(), "left out: "+name)
		}
		require.Contains(t, stderr.String(), "install redis-server")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	profiles := t.TempDir()
	var stdout, stderr bytes.Buffer
	require.Equal(t, benchkit.ExitOK, run(t.Context(), []string{"-short", "-json", "-run", "^replay$", "-profiles", profiles}, &stdout, &stderr), stderr.String())
	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.False(t, r.Judged)
	require.NotEmpty(t, r.Machine.Postgres)
	require.Len(t, r.Sections, 1)
	require.Equal(t, "replay, 1 caller", r.Sections[0].Figures[0].Name)
	require.Positive(t, r.Sections[0].Figures[0].Measures[0].Value)
	require.FileExists(t, filepath.Join(profiles, "replay.pprof"))
}

func TestRun_interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stdout bytes.Buffer
	require.Equal(t, benchkit.ExitNoVerdict, run(ctx, []string{"-run", "alone"}, &stdout, io.Discard))
	require.NotContains(t, stdout.String(), "alone")
}

// Whatever it is doing when the time is up, it ends, and says why.
func TestMeasureAll_tooLong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		bench string
		limit time.Duration
	}{{"replay", time.Nanosecond}, {"combined64", 3 * time.Second}} {
		t.Run(fmt.Sprint(tt.bench, " ", tt.limit), func(t *testing.T) {
			t.Parallel()
			opts, err := parseOptions([]string{"-short", "-run", "^" + tt.bench + "$"}, io.Discard)
			require.NoError(t, err)
			amount := opts.effort()
			require.Equal(t, 3*time.Minute, amount.limit)
			amount.limit, amount.slices = tt.limit, 1000
			start := time.Now()
			r, err := measureAll(t.Context(), opts, amount, io.Discard)
			require.ErrorIs(t, err, errTooLong)
			require.ErrorContains(t, err, tt.limit.String())
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Less(t, time.Since(start), time.Minute)
			require.Empty(t, r.Sections)
		})
	}
}
